/* See compare.h. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "documents.h"
#include "zc_json.h"

const char *const verdict_names[] = {
    [VERDICT_NOISE] = "within noise", [VERDICT_BETTER] = "better", [VERDICT_WORSE] = "worse", [VERDICT_UNKNOWN] = "unknown", NULL,
};

struct difference compare_estimates(const struct zc_estimate *a, const struct zc_estimate *b, bool more_is_better)
{
    struct difference d = { b->median / a->median - 1, b->low / a->high - 1, b->high / a->low - 1, VERDICT_UNKNOWN };
    int larger = zc_estimate_compare(b, a);

    if (!isfinite(d.change))
        d.change = NAN;
    if (!isfinite(d.low) || !isfinite(d.high)) {
        d.low = d.high = NAN;
        return d;
    }
    d.verdict = larger == 0 ? VERDICT_NOISE : (larger > 0) == more_is_better ? VERDICT_BETTER : VERDICT_WORSE;
    return d;
}

/* ---- what the sides are ---- */

/* Members at `path` that differ between the first documents of the sides go to *differences. */
static void add_differences(json_t *differences, const json_t *a, const json_t *b, const char *path)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)member_at(a, path), name, value) {
        const json_t *other = json_object_get(member_at(b, path), name);
        char full[128];
        if (json_is_object(value) || other == NULL || json_equal(value, other))
            continue;
        snprintf(full, sizeof(full), "%s.%s", path, name);
        json_object_set_new(differences, full, json_pack("[O, O]", value, other));
    }
}

static json_t *differences_of(const json_t *a, const json_t *b)
{
    static const char *const facts[] = { "host", "kernel", "cpu", "zcrdma_version", "device.name", "device.kind", "device.firmware",
                                         "device.rate_gbit_per_s", "device.active_mtu_bytes" };
    json_t *differences = json_object();

    add_differences(differences, a, b, "config");
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "environment.%s", facts[i]);
        json_t *one = (json_t *)member_at(a, path), *other = (json_t *)member_at(b, path);
        if (one != NULL && other != NULL && !json_equal(one, other))
            json_object_set_new(differences, path, json_pack("[O, O]", one, other));
    }
    return differences;
}

static json_t *ids_of(const json_t *documents, size_t from, size_t to)
{
    json_t *ids = json_array();

    for (size_t i = from; i < to; i++)
        json_array_append(ids, json_object_get(json_array_get(documents, i), "id"));
    return ids;
}

/* ---- cells ---- */

/* The cells of documents from..to, in a list of their own; the trials change hands. */
static struct cells side_of(struct cells *all, size_t from, size_t to)
{
    struct cells side = { .list = calloc(all->count + 1, sizeof(struct cell)) };

    for (size_t i = 0; side.list != NULL && i < all->count; i++)
        if (all->list[i].index >= from && all->list[i].index < to) {
            side.list[side.count++] = all->list[i];
            memset(all->list[i].trials, 0, sizeof(all->list[i].trials));
        }
    cells_merge(&side);
    return side;
}

static const struct cell *match(const struct cells *a, const struct cell *cell, const struct cells *b)
{
    if (a->count == 1 && b->count == 1)
        return &b->list[0];
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->list[i].label, cell->label) == 0 && b->list[i].size_bytes == cell->size_bytes)
            return &b->list[i];
    return NULL;
}

static json_t *estimate_to_json(const struct zc_estimate *e)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "trials", zc_json_count(e->trials), "median", zc_json_real(e->median), "low",
                     zc_json_real(e->low), "high", zc_json_real(e->high));
}

struct tally {
    size_t verdicts[4];
    bool failed;
};

static json_t *compare_metric(const struct cell *a, const struct cell *b, enum metric metric, double fail_over, struct tally *tally)
{
    const struct zc_estimate *ea = &a->estimates[metric], *eb = &b->estimates[metric];
    struct difference d = compare_estimates(ea, eb, metric_infos[metric].more_is_better);

    if (ea->trials == 0 && eb->trials == 0)
        return json_null();
    tally->verdicts[d.verdict]++;
    tally->failed = tally->failed || (d.verdict == VERDICT_WORSE && fabs(d.change) > fail_over);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "a", estimate_to_json(ea), "b", estimate_to_json(eb), "change",
                     zc_json_real(d.change), "low", zc_json_real(d.low), "high", zc_json_real(d.high), "verdict",
                     verdict_names[d.verdict]);
}

static json_t *compare_cell(const struct cell *a, const struct cell *b, double fail_over, struct tally *tally)
{
    char label[2 * sizeof(a->label) + 8];
    json_t *row;

    snprintf(label, sizeof(label), strcmp(a->label, b->label) == 0 ? "%s" : "%s -> %s", a->label, b->label);
    row = json_pack("{s:s, s:o, s:o}", "label", label, "size", zc_json_real(a->size_bytes), "size_b", zc_json_real(b->size_bytes));
    for (int m = 0; m < METRICS; m++)
        json_object_set_new(row, metric_infos[m].name, compare_metric(a, b, (enum metric)m, fail_over, tally));
    return row;
}

static json_t *compare_sides(const struct cells *a, const struct cells *b, double fail_over, struct tally *tally)
{
    json_t *rows = json_array();
    size_t matched = 0;

    for (size_t i = 0; i < a->count; i++) {
        const struct cell *other = match(a, &a->list[i], b);
        if (other == NULL)
            continue;
        matched++;
        json_array_append_new(rows, compare_cell(&a->list[i], other, fail_over, tally));
    }
    return json_pack("{s:o, s:o, s:o}", "cells", rows, "only_a", zc_json_count(a->count - matched), "only_b",
                     zc_json_count(b->count - matched));
}

json_t *compare_documents(const json_t *documents, size_t split, double fail_over)
{
    size_t count = json_array_size(documents);
    struct cells all, a, b;
    struct tally tally = { .failed = false };
    json_t *comparison = NULL;

    if (cells_make(documents, &all)) {
        a = side_of(&all, 0, split);
        b = side_of(&all, split, count);
        comparison = compare_sides(&a, &b, fail_over, &tally);
        cells_free(&a);
        cells_free(&b);
    }
    cells_free(&all);
    if (comparison == NULL)
        return NULL;
    json_object_update_new(comparison, json_pack("{s:o, s:o, s:o, s:f, s:f, s:b, s:{s:o, s:o, s:o, s:o}}",
        "a", ids_of(documents, 0, split),
        "b", ids_of(documents, split, count),
        "differences", differences_of(json_array_get(documents, 0), json_array_get(documents, split)),
        "confidence", ZC_CONFIDENCE,
        "fail_over", fail_over,
        "failed", tally.failed,
        "verdicts",
            verdict_names[VERDICT_BETTER], zc_json_count(tally.verdicts[VERDICT_BETTER]),
            verdict_names[VERDICT_WORSE], zc_json_count(tally.verdicts[VERDICT_WORSE]),
            verdict_names[VERDICT_NOISE], zc_json_count(tally.verdicts[VERDICT_NOISE]),
            verdict_names[VERDICT_UNKNOWN], zc_json_count(tally.verdicts[VERDICT_UNKNOWN])));
    return comparison;
}
