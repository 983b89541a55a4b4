/* Which cells make a line in a plot. See report.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "report.h"
#include "strategies.h"

const char *const report_phases[REPORT_PHASES][2] = {
    { "discard", "discard_ns" }, { "register", "register_ns" }, { "post", "post_ns" }, { "wait", "wait_ns" },
    { "copy", "copy_ns" }, { "deregister", "deregister_ns" }, { "consume", "consume_ns" },
};
const char *const report_percentiles[REPORT_PERCENTILES][2] = {
    { "min", "min_ns" }, { "p50", "p50_ns" }, { "p90", "p90_ns" }, { "p95", "p95_ns" },
    { "p99", "p99_ns" }, { "p99.9", "p99_9_ns" }, { "p99.99", "p99_99_ns" }, { "max", "max_ns" },
};

struct text report_letter(const struct report *report, size_t index)
{
    struct text text = { "" };

    if (json_array_size(report->documents) > 1)
        snprintf(text.s, sizeof(text.s), index < 26 ? "%c" : "%c%zu", (int)('A' + index % 26), index / 26);
    return text;
}

static bool is_ceiling(const char *strategy)
{
    int id = zc_strategy_find(strategy);

    return id >= 0 && zc_strategy_infos[id].memory == ZC_MEMORY_PREREGISTERED;
}

/* Sweeps: strategies, a letter where there are several documents. Runs: labels, whichever document they come from. */
static void make_title(const struct report *report, const struct cell *cell, char *title, size_t size)
{
    struct text letter = report_letter(report, cell->index);

    if (!document_is_sweep(cell->document))
        snprintf(title, size, "%s", cell->label);
    else
        snprintf(title, size, "%s%s%s", cell->strategy, *letter.s != '\0' ? ", " : "", letter.s);
}

static struct series *series_of(struct report *report, const struct cell *cell)
{
    char title[sizeof(report->series->title)];
    struct series *series;

    make_title(report, cell, title, sizeof(title));
    for (size_t i = 0; i < report->series_count; i++)
        if (strcmp(report->series[i].title, title) == 0)
            return &report->series[i];
    series = &report->series[report->series_count];
    *series = (struct series){ .ceiling = is_ceiling(cell->strategy), .cells = calloc(report->cells.count, sizeof(cell)) };
    if (series->cells == NULL)
        return NULL;
    report->series_count++;
    strcpy(series->title, title);
    return series;
}

static void insert(struct series *series, const struct cell *cell, enum metric metric)
{
    size_t at = series->count;
    bool better;

    while (at > 0 && series->cells[at - 1]->size_bytes > cell->size_bytes)
        at--;
    if (at > 0 && series->cells[at - 1]->size_bytes == cell->size_bytes) {
        better = (cell->estimates[metric].median > series->cells[at - 1]->estimates[metric].median) == metric_infos[metric].more_is_better;
        if (better)
            series->cells[at - 1] = cell;
        return;
    }
    memmove(&series->cells[at + 1], &series->cells[at], (series->count - at) * sizeof(cell));
    series->cells[at] = cell;
    series->count++;
}

int report_series(struct report *report, enum metric metric)
{
    report_series_free(report);
    report->series = calloc(report->cells.count + 1, sizeof(*report->series));
    if (report->series == NULL)
        return -1;
    for (size_t i = 0; i < report->cells.count; i++) {
        const struct cell *cell = &report->cells.list[i];
        struct series *series;
        if (isnan(cell->estimates[metric].median))
            continue;
        series = series_of(report, cell);
        if (series == NULL)
            return -1;
        insert(series, cell, metric);
    }
    return 0;
}

void report_series_free(struct report *report)
{
    for (size_t i = 0; i < report->series_count; i++)
        free(report->series[i].cells);
    free(report->series);
    report->series = NULL;
    report->series_count = 0;
}
