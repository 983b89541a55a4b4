/* A sweep on one screen: a row a size with the best of each kind, the crossovers, the recommendation. At most 100 columns; "-" is "not
 * measured". */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cells.h"
#include "format.h"
#include "output.h"
#include "strategies.h"

enum { WIDTH = 100, SIZES_MAX = 768, LABEL = 18 };

/* The best cell of a kind at a size, by throughput; NULL: none. */
static json_t *best(const json_t *doc, double size, enum zc_memory_kind kind)
{
    json_t *cell, *found = NULL;
    size_t index;

    json_array_foreach (json_object_get(doc, "cells"), index, cell) {
        int strategy = zc_strategy_find(text_at(cell, "strategy"));
        if (strategy < 0 || zc_strategy_infos[strategy].memory != kind || number_at(cell, "size") != size ||
            isnan(number_at(cell, "gib_per_s.median")))
            continue;
        if (found == NULL || number_at(cell, "gib_per_s.median") > number_at(found, "gib_per_s.median"))
            found = cell;
    }
    return found;
}

static void print_cell(FILE *out, const json_t *cell)
{
    char range[40] = "";

    if (cell == NULL) {
        fprintf(out, "%-37s", "  -");
        return;
    }
    if (!isnan(number_at(cell, "gib_per_s.low")))
        snprintf(range, sizeof(range), "+-%.0f %%", 50 * (number_at(cell, "gib_per_s.high") - number_at(cell, "gib_per_s.low")) /
                 number_at(cell, "gib_per_s.median"));
    fprintf(out, "  %-22s%5.2f %-7.7s", text_at(cell, "strategy"), number_at(cell, "gib_per_s.median"), range);
}

/* Only intervals that do not overlap decide. */
static const char *better(const json_t *copy, const json_t *zero)
{
    if (copy == NULL || zero == NULL || isnan(number_at(copy, "gib_per_s.low")) || isnan(number_at(zero, "gib_per_s.low")))
        return "-";
    if (number_at(copy, "gib_per_s.low") > number_at(zero, "gib_per_s.high"))
        return "copy";
    return number_at(zero, "gib_per_s.low") > number_at(copy, "gib_per_s.high") ? "zero-copy" : "even";
}

static void print_row(FILE *out, const json_t *doc, double size)
{
    json_t *copy = best(doc, size, ZC_MEMORY_STAGING), *zero = best(doc, size, ZC_MEMORY_REGISTER);
    json_t *ideal = best(doc, size, ZC_MEMORY_PREREGISTERED);

    fprintf(out, "%9s", format_bytes(size).s);
    print_cell(out, copy);
    print_cell(out, zero);
    fprintf(out, " %6s %s\n", format_number(number_at(ideal, "gib_per_s.median")).s, better(copy, zero));
}

/* Ascending, once each. */
static size_t sizes_of(const json_t *doc, double sizes[SIZES_MAX])
{
    json_t *cell;
    size_t index, count = 0;

    json_array_foreach (json_object_get(doc, "cells"), index, cell) {
        double size = number_at(cell, "size");
        size_t at = count;
        while (at > 0 && sizes[at - 1] > size)
            at--;
        if ((at > 0 && sizes[at - 1] == size) || count == SIZES_MAX)
            continue;
        memmove(&sizes[at + 1], &sizes[at], (count - at) * sizeof(sizes[0]));
        sizes[at] = size;
        count++;
    }
    return count;
}

static void print_table(FILE *out, const json_t *doc)
{
    double sizes[SIZES_MAX];
    size_t count = sizes_of(doc, sizes);

    fprintf(out, "%9s  %-35s  %-35s %6s %s\n", "size", "best copy, GiB/s", "best zero-copy, GiB/s", "ideal", "better");
    for (size_t i = 0; i < count; i++)
        print_row(out, doc, sizes[i]);
    fprintf(out, "%9s  better: beyond both 95 %% intervals; even: they overlap\n", "");
}

static const char *metric_words(const char *name)
{
    for (int m = 0; m < METRICS; m++)
        if (strcmp(metric_infos[m].name, name) == 0)
            return metric_infos[m].words;
    return name;
}

static void print_crossover(FILE *out, const json_t *crossover)
{
    const json_t *crossings = json_object_get(crossover, "crossings");
    const char *kind = text_at(crossover, "kind");
    json_t *crossing;
    size_t index;

    fprintf(out, "  %-*s", LABEL - 2, metric_words(text_at(crossover, "metric")));
    if (strcmp(kind, "none") == 0)
        fprintf(out, "no crossover in this range: %s wins\n", text_at(crossover, "winner"));
    else if (strcmp(kind, "noisy") == 0)
        fprintf(out, "too noisy to tell\n");
    else if (strcmp(kind, "unmeasured") == 0)
        fprintf(out, "-  (too few trials or samples)\n");
    json_array_foreach (crossings, index, crossing)
        fprintf(out, "%s%s below, %s above: between %s and %s%s", index > 0 ? "; " : "", text_at(crossing, "below"),
                text_at(crossing, "above"), format_bytes(number_at(crossing, "low")).s, format_bytes(number_at(crossing, "high")).s,
                index + 1 == json_array_size(crossings) ? "\n" : "");
}

/* What the parts by themselves lead one to expect, below what was measured. */
static void print_model(FILE *out, const json_t *doc)
{
    const json_t *model = json_object_get(doc, "model");
    const double predicted = number_at(model, "crossover_bytes");
    char line[480];

    if (!json_is_object(model))
        return;
    snprintf(line, sizeof(line), "%s%s, if copying %s GiB/s, registering %s + %s a page and READs of %s GiB/s were all there is to it",
             isnan(predicted) ? "at no size that was probed" : "at ", isnan(predicted) ? "" : format_bytes(predicted).s,
             format_number(number_at(model, "copy_gib_per_s")).s, format_ns(1e9 * number_at(model, "register_base_s")).s,
             format_ns(1e9 * number_at(model, "register_per_page_s")).s, format_number(number_at(model, "read_gib_per_s")).s);
    fprintf(out, "  %-*s", LABEL - 2, "predicted");
    print_wrapped(out, LABEL, WIDTH, line);
}

static void print_crossovers(FILE *out, const json_t *doc)
{
    json_t *crossover;
    size_t index;
    bool first = true;

    json_array_foreach (json_object_get(doc, "crossovers"), index, crossover) {
        if (strcmp(text_at(crossover, "a"), "copy") != 0)
            continue;
        if (first)
            fprintf(out, "\nWhere the better one of copy and zero-copy changes (95 %% intervals on both sides):\n");
        first = false;
        print_crossover(out, crossover);
    }
    if (!first)
        print_model(out, doc);
}

void output_recommendation_text(FILE *out, json_t *recommendation)
{
    json_t *sentence;
    size_t index;

    clean_strings(recommendation);
    json_array_foreach (json_object_get(recommendation, "sentences"), index, sentence) {
        fprintf(out, "  ");
        print_wrapped(out, 2, WIDTH, json_string_value(sentence));
    }
    if (json_is_string(json_object_get(recommendation, "command")))
        fprintf(out, "  %s\n", text_at(recommendation, "command"));
}

static void print_clipped(FILE *out, const json_t *doc)
{
    const json_t *clipped = json_object_get(doc, "clipped");
    json_t *size;
    size_t index;

    if (json_array_size(clipped) == 0)
        return;
    fprintf(out, "left out, larger than the peer's region of %s:", format_bytes(number_at(doc, "peer.region_bytes")).s);
    json_array_foreach (clipped, index, size)
        fprintf(out, " %s", format_bytes(json_number_value(size)).s);
    fputc('\n', out);
}

static void print_errors(FILE *out, const json_t *doc)
{
    json_t *cell;
    size_t index;

    json_array_foreach (json_object_get(doc, "cells"), index, cell)
        if (json_is_object(json_object_get(cell, "error")))
            fprintf(out, "%s at %s: %s\n", text_at(cell, "strategy"), format_bytes(number_at(cell, "size")).s, text_at(cell, "error.message"));
}

void output_sweep_text(FILE *out, json_t *doc)
{
    clean_strings(doc);
    fprintf(out, "sweep of %zu combinations in %s, peer %s, %s (%s)%s\n\n", json_array_size(json_object_get(doc, "cells")),
            format_duration(number_at(doc, "elapsed_s")).s, text_at(doc, "config.peer"), text_at(doc, "environment.device.name"),
            text_at(doc, "environment.device.kind"), json_is_true(json_object_get(doc, "complete")) ? "" : ", INCOMPLETE");
    print_table(out, doc);
    print_clipped(out, doc);
    print_errors(out, doc);
    print_crossovers(out, doc);
    fprintf(out, "\nzcctl recommend %s --goal throughput (latency, cpu: likewise):\n", text_at(doc, "id"));
    output_recommendation_text(out, json_object_get(json_object_get(doc, "recommendation"), "throughput"));
}
