/* The table of a comparison (compare.h): a row a figure that both sides have. At most 100 columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "output.h"

enum { WIDTH = 100 };

static void print_side(FILE *out, const char *name, const json_t *ids)
{
    size_t count = json_array_size(ids);

    fprintf(out, "%-4s%s", name, json_string_value(json_array_get(ids, 0)) != NULL ? json_string_value(json_array_get(ids, 0)) : "-");
    if (count > 1)
        fprintf(out, " and %zu more", count - 1);
    fputc('\n', out);
}

static void print_differences(FILE *out, const json_t *differences)
{
    const char *name;
    json_t *pair;

    json_object_foreach ((json_t *)differences, name, pair) {
        char *a = json_dumps(json_array_get(pair, 0), JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        char *b = json_dumps(json_array_get(pair, 1), JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        fprintf(out, "    %s: %.40s, %.40s\n", name, a != NULL ? a : "-", b != NULL ? b : "-");
        free(a);
        free(b);
    }
}

static void percent(double share, char *text, size_t size)
{
    if (isnan(share))
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%+.1f %%", 100 * share);
}

static void print_figure(FILE *out, enum metric metric, const json_t *figure)
{
    char change[24], low[24], high[24], interval[64];
    const char *verdict = text_at(figure, "verdict");

    percent(number_at(figure, "change"), change, sizeof(change));
    percent(number_at(figure, "low"), low, sizeof(low));
    percent(number_at(figure, "high"), high, sizeof(high));
    snprintf(interval, sizeof(interval), strcmp(low, "-") == 0 ? "-" : "%s to %s", low, high);
    fprintf(out, "  %-16s%10s%10s%10s   %-22s %s\n", metric_infos[metric].words, metric_text(metric, number_at(figure, "a.median")).s,
            metric_text(metric, number_at(figure, "b.median")).s, change, interval, verdict);
}

static void print_cell(FILE *out, const json_t *cell)
{
    double size = number_at(cell, "size"), other = number_at(cell, "size_b");

    fprintf(out, "%s, %s", text_at(cell, "label"), format_bytes(size).s);
    if (size != other)
        fprintf(out, " -> %s", format_bytes(other).s);
    fputc('\n', out);
    for (int m = 0; m < METRICS; m++)
        if (json_is_object(json_object_get(cell, metric_infos[m].name)))
            print_figure(out, (enum metric)m, json_object_get(cell, metric_infos[m].name));
}

static void print_summary(FILE *out, const json_t *comparison)
{
    const json_t *verdicts = json_object_get(comparison, "verdicts");
    char line[400];

    fprintf(out, "\n%s better, %s worse, %s within noise", format_count(number_at(verdicts, "better")).s,
            format_count(number_at(verdicts, "worse")).s, format_count(number_at(verdicts, "within noise")).s);
    if (number_at(verdicts, "unknown") > 0)
        fprintf(out, ", %s unknown", format_count(number_at(verdicts, "unknown")).s);
    if (number_at(comparison, "only_a") > 0 || number_at(comparison, "only_b") > 0)
        fprintf(out, "; only in A: %s, only in B: %s", format_count(number_at(comparison, "only_a")).s,
                format_count(number_at(comparison, "only_b")).s);
    fputc('\n', out);
    snprintf(line, sizeof(line), "Better and worse: the %.0f %% intervals of the two medians do not overlap.%s",
             100 * number_at(comparison, "confidence"), number_at(verdicts, "unknown") > 0 ?
             " Unknown: fewer than 6 trials on a side have no interval; give several runs a side (ID,ID,...) or compare sweeps." : "");
    print_wrapped(out, 0, WIDTH, line);
}

void output_compare_text(FILE *out, json_t *comparison)
{
    json_t *cell;
    size_t index;

    print_side(out, "A", json_object_get(comparison, "a"));
    print_side(out, "B", json_object_get(comparison, "b"));
    if (json_object_size(json_object_get(comparison, "differences")) > 0)
        fprintf(out, "They differ in (A, B):\n");
    print_differences(out, json_object_get(comparison, "differences"));
    fprintf(out, "\n%18s%10s%10s%10s   %-22s %s\n", "", "A", "B", "change", "interval", "B is");
    json_array_foreach (json_object_get(comparison, "cells"), index, cell)
        print_cell(out, cell);
    print_summary(out, comparison);
}
