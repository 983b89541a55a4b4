/* See cells.h. */
#include "cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "options.h"

const struct metric_info metric_infos[METRICS] = {
    [METRIC_THROUGHPUT] = { "gib_per_s", "throughput.gib_per_s", "throughput", "GiB/s", true },
    [METRIC_P50] = { "p50_ns", "latency.available.p50_ns", "median latency", "ns", false },
    [METRIC_P99] = { "p99_ns", "latency.available.p99_ns", "p99 latency", "ns", false },
    [METRIC_CPU] = { "cpu_s_per_gib", "cost.cpu_s_per_gib", "CPU per GiB", "s/GiB", false },
};

struct text metric_text(enum metric metric, double value)
{
    return metric == METRIC_P50 || metric == METRIC_P99 ? format_ns(value) : format_number(value);
}

/* ---- labels ---- */

static void add_option(char *label, size_t size, const struct zc_option *option, const json_t *value)
{
    size_t used = strlen(label);
    char text[64];

    if (json_is_integer(value) && option->type == ZC_OPTION_SIZE)
        snprintf(text, sizeof(text), "%s", format_bytes(json_number_value(value)).s);
    else if (json_is_number(value))
        snprintf(text, sizeof(text), "%.6g", json_number_value(value));
    else if (json_is_boolean(value))
        snprintf(text, sizeof(text), "%s", json_is_true(value) ? "on" : "off");
    else if (json_is_string(value))
        snprintf(text, sizeof(text), "%.60s", json_string_value(value));
    else
        return;     /* null: the strategy does not take it */
    snprintf(label + used, size - used, ", %s %s", option->name, text);
}

/* Does a run among the documents have another value? */
static bool differs(const json_t *documents, const char *name)
{
    const json_t *first = NULL;
    json_t *document;
    size_t index;

    json_array_foreach (documents, index, document) {
        const json_t *value = json_object_get(json_object_get(document, "config"), name);
        if (document_is_sweep(document) || value == NULL || json_is_null(value))
            continue;
        if (first != NULL && !json_equal(first, value))
            return true;
        first = value;
    }
    return false;
}

/* `cell` is of a sweep, or NULL. */
static void make_label(const json_t *documents, const json_t *document, const json_t *cell, char *label, size_t size)
{
    const json_t *config = json_object_get(document, "config");
    size_t count;
    const struct zc_option *table = zc_options(&count);

    snprintf(label, size, "%.31s", text_at(cell != NULL ? cell : document, "strategy"));
    for (size_t i = 0; i < count; i++) {
        const char *name = table[i].name;
        if (strcmp(name, "strategy") == 0 || strcmp(name, "size") == 0)
            continue;
        if (cell != NULL && json_is_array(json_object_get(config, name)))
            add_option(label, size, &table[i], json_object_get(cell, name));
        else if (cell == NULL && differs(documents, name))
            add_option(label, size, &table[i], json_object_get(config, name));
    }
}

/* ---- figures ---- */

static void estimate(struct cell *cell)
{
    for (int m = 0; m < METRICS; m++) {
        double *sorted = calloc(cell->trial_count > 0 ? cell->trial_count : 1, sizeof(*sorted));
        if (sorted == NULL)
            continue;
        memcpy(sorted, cell->trials[m], cell->trial_count * sizeof(*sorted));
        zc_estimate_make(sorted, cell->trial_count, &cell->estimates[m]);
        free(sorted);
    }
}

static bool allocate(struct cell *cell, size_t trials)
{
    bool done = true;

    cell->trial_count = trials;
    for (int m = 0; m < METRICS; m++) {
        cell->trials[m] = calloc(trials > 0 ? trials : 1, sizeof(double));
        done = done && cell->trials[m] != NULL;
    }
    return done;
}

static bool read_sweep_cell(const json_t *json, struct cell *cell)
{
    const json_t *trials = json_object_get(json, "trials");

    if (!allocate(cell, json_array_size(json_object_get(trials, metric_infos[0].name))))
        return false;
    for (int m = 0; m < METRICS; m++)
        for (size_t i = 0; i < cell->trial_count; i++) {
            const json_t *value = json_array_get(json_object_get(trials, metric_infos[m].name), i);
            cell->trials[m][i] = json_is_number(value) ? json_number_value(value) : NAN;
        }
    cell->size_bytes = number_at(json, "size");
    cell->phases = json_is_object(json_object_get(json, "phases")) ? json_object_get(json, "phases") : NULL;
    cell->error = json_string_value(member_at(json, "error.message"));
    return true;
}

static bool read_run(const json_t *document, struct cell *cell)
{
    if (!allocate(cell, 1))
        return false;
    for (int m = 0; m < METRICS; m++)
        cell->trials[m][0] = number_at(document, metric_infos[m].in_run);
    cell->size_bytes = number_at(document, "config.size");
    cell->phases = json_is_object(json_object_get(document, "phases")) ? json_object_get(document, "phases") : NULL;
    cell->error = json_string_value(member_at(document, "error.message"));
    return true;
}

/* `json`: the cell of a sweep; NULL: the document is that of a run. */
static bool add(struct cells *cells, const json_t *documents, size_t index, const json_t *json)
{
    const json_t *document = json_array_get(documents, index);
    struct cell *cell = &cells->list[cells->count];

    *cell = (struct cell){ .document = document, .index = index };
    cells->count++;
    if (!(json != NULL ? read_sweep_cell(json, cell) : read_run(document, cell)))
        return false;
    snprintf(cell->strategy, sizeof(cell->strategy), "%s", text_at(json != NULL ? json : document, "strategy"));
    make_label(documents, document, json, cell->label, sizeof(cell->label));
    estimate(cell);
    return true;
}

bool cells_make(const json_t *documents, struct cells *cells)
{
    size_t index, total = 0, inner;
    json_t *document, *json;

    json_array_foreach (documents, index, document)
        total += document_is_sweep(document) ? json_array_size(json_object_get(document, "cells")) : 1;
    *cells = (struct cells){ .list = calloc(total > 0 ? total : 1, sizeof(struct cell)) };
    if (cells->list == NULL)
        return false;
    json_array_foreach (documents, index, document) {
        if (!document_is_sweep(document)) {
            if (!add(cells, documents, index, NULL))
                return false;
            continue;
        }
        json_array_foreach (json_object_get(document, "cells"), inner, json)
            if (!add(cells, documents, index, json))
                return false;
    }
    return true;
}

static void free_cell(struct cell *cell)
{
    for (int m = 0; m < METRICS; m++)
        free(cell->trials[m]);
}

static bool take_trials(struct cell *to, const struct cell *from)
{
    for (int m = 0; m < METRICS; m++) {
        double *grown = realloc(to->trials[m], (to->trial_count + from->trial_count) * sizeof(double) + 1);
        if (grown == NULL)
            return false;
        memcpy(grown + to->trial_count, from->trials[m], from->trial_count * sizeof(double));
        to->trials[m] = grown;
    }
    to->trial_count += from->trial_count;
    return true;
}

void cells_merge(struct cells *cells)
{
    size_t kept = 0;

    for (size_t i = 0; i < cells->count; i++) {
        struct cell *cell = &cells->list[i], *same = NULL;
        for (size_t j = 0; j < kept && same == NULL; j++)
            if (strcmp(cells->list[j].label, cell->label) == 0 && cells->list[j].size_bytes == cell->size_bytes)
                same = &cells->list[j];
        if (same != NULL && take_trials(same, cell)) {
            estimate(same);
            free_cell(cell);
        } else {
            cells->list[kept++] = *cell;
        }
    }
    cells->count = kept;
}

void cells_free(struct cells *cells)
{
    for (size_t i = 0; i < cells->count; i++)
        free_cell(&cells->list[i]);
    free(cells->list);
    *cells = (struct cells){ .count = 0 };
}
