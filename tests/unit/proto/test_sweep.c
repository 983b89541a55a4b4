/* Options of a sweep, its cells, its document there and back, its advice. */
#include "valid.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep_json.h"
#include "zc_json.h"

static struct zc_sweep plan(const char *json)
{
    struct zc_sweep sweep;
    struct zc_error err = { 0 };
    json_t *const params = json_loads(json, 0, NULL);
    assert_non_null(params);
    zc_sweep_init(&sweep);
    if (zc_sweep_options_from_json(params, &sweep.options, &err) != 0 || zc_sweep_plan(&sweep, &err) != 0)
        fail_msg("%s", err.message);
    json_decref(params);
    return sweep;
}

static void refuse(const char *json, const char *field, const char *word)
{
    struct zc_sweep sweep;
    struct zc_error err = { 0 };
    json_t *const params = json_loads(json, 0, NULL);
    assert_non_null(params);
    zc_sweep_init(&sweep);
    int rc = zc_sweep_options_from_json(params, &sweep.options, &err);
    if (rc == 0)
        rc = zc_sweep_plan(&sweep, &err);
    assert_true(rc < 0);
    assert_string_equal(err.field, field);
    assert_non_null(strstr(err.message, word));
    zc_sweep_destroy(&sweep);
    json_decref(params);
}

static void test_sizes(void **state)
{
    (void)state;
    struct zc_axis sizes;
    struct zc_error err;
    assert_int_equal(zc_sweep_sizes_parse("4K..64K", 1, &sizes, &err), 0);
    assert_int_equal(sizes.count, 5);
    assert_int_equal(sizes.values[4], 65536);
    assert_int_equal(zc_sweep_sizes_parse("4K..16K", 2, &sizes, &err), 0);
    assert_int_equal(sizes.count, 5);
    assert_int_equal(sizes.values[1], 5760);        /* 5792 in whole cache lines */
    assert_int_equal(zc_sweep_sizes_parse("1M,64K,64K,3M+7", 1, &sizes, &err), -EINVAL);
    assert_int_equal(zc_sweep_sizes_parse("1M,64K,64K", 1, &sizes, &err), 0);
    assert_int_equal(sizes.count, 2);
    assert_int_equal(sizes.values[0], 65536);
    assert_int_equal(zc_sweep_sizes_parse("5000..100000", 1, &sizes, &err), 0);
    assert_int_equal(sizes.values[sizes.count - 1], 100000);
    assert_true(zc_sweep_sizes_parse("1M..4K", 1, &sizes, &err) < 0);
    assert_true(zc_sweep_sizes_parse("..", 1, &sizes, &err) < 0);
    assert_true(zc_sweep_sizes_parse("", 1, &sizes, &err) < 0);
    assert_true(zc_sweep_sizes_parse("1..1T", 8, &sizes, &err) < 0);    /* more than an axis holds */
    assert_true(zc_sweep_sizes_parse("4K..8K", 0, &sizes, &err) < 0);
}

static void test_words(void **state)
{
    (void)state;
    double value;
    assert_int_equal(zc_duration_parse("5m", &value), 0);
    assert_true(value == 300);
    assert_int_equal(zc_duration_parse("1.5h", &value), 0);
    assert_true(value == 5400);
    assert_int_equal(zc_duration_parse("90", &value), 0);
    assert_true(zc_duration_parse("5 m", &value) < 0 && zc_duration_parse("", &value) < 0 && zc_duration_parse("-1", &value) < 0);
    assert_int_equal(zc_share_parse("2%", &value), 0);
    assert_true(value == 0.02);
    assert_true(zc_share_parse("nan", &value) < 0 && zc_share_parse("2%%", &value) < 0);
}

/* What a strategy does not take, or does not feel, multiplies nothing. */
static void test_cells(void **state)
{
    (void)state;
    struct zc_sweep sweep = plan("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": [4096, \"1M\"]}");
    uint32_t all = 0;
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        all += !zc_strategy_infos[i].composite;
    assert_int_equal(sweep.cell_count, 2 * all);
    zc_sweep_destroy(&sweep);
    sweep = plan("{\"peer\": \"self\", \"strategy\": \"copy_blocking,pipeline_blocking\", \"size\": \"1M\", \"chunk_size\": [\"512K\", \"2M\"], "
                 "\"qps\": \"1,4\", \"operations_max\": [1, 64]}");
    assert_int_equal(sweep.cell_count, 2 + 2 * 2);
    zc_sweep_destroy(&sweep);
    sweep = plan("{\"peer\": \"self\", \"strategy\": [\"copy_blocking\", \"ideal_blocking\"], \"size\": 4096, \"buffers\": \"reuse,fresh\"}");
    assert_int_equal(sweep.cell_count, 3);      /* registered beforehand is not fresh */
    zc_sweep_destroy(&sweep);
}

static void test_refused(void **state)
{
    (void)state;
    refuse("{\"strategy\": \"all\", \"size\": 4096}", "peer", "required");
    refuse("{\"peer\": \"self\", \"size\": 4096}", "strategy", "required");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\"}", "size", "required");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": 4096, \"measure\": 3}", "measure", "by itself");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": 4096, \"nothing\": 3}", "nothing", "unknown");
    refuse("{\"peer\": \"self\", \"strategy\": \"copy_bloking\", \"size\": 4096}", "strategy", "did you mean");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": 0}", "size", "below the minimum");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": {}}", "size", "neither");
    refuse("{\"peer\": \"self\", \"strategy\": \"hybrid_async\", \"size\": 4096, \"threshold\": \"4K,sweep:x\"}", "threshold", "is for a run");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": 4096, \"budget\": \"soon\"}", "budget", "5m");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": 4096, \"trials\": 1000}", "trials", "24");
    refuse("{\"peer\": \"self\", \"strategy\": \"all\", \"size\": \"4K..1T\", \"steps\": 2, \"qps\": [1, 2, 4]}", "", "more than 768");
    refuse("{\"peer\": \"self\", \"strategy\": \"copy_blocking\", \"size\": 4096, \"memory_max\": \"1G,2G\"}", "memory_max", "not a size");
}

/* A world in which copying costs 1 + size and registering 9 + size / 3 (in some unit): they cross at 12. */
static void fill(struct zc_sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->cell_count; i++) {
        struct zc_cell *const cell = &sweep->cells[i];
        const double size = (double)cell->options.size_bytes / 1024;
        const enum zc_memory_kind memory = zc_strategy_infos[cell->options.strategy].memory;
        const double cost = memory == ZC_MEMORY_STAGING ? 1 + size : memory == ZC_MEMORY_REGISTER ? 9 + size / 3 : 0.5 + size / 4;
        cell->trial_count = 7;
        cell->inflight = 1;
        cell->window_s = 0.01;
        for (int t = 0; t < 7; t++)
            for (int m = 0; m < ZC_METRIC_COUNT; m++)
                cell->trials[t].figures[m] = (m == ZC_METRIC_THROUGHPUT ? size / cost : cost) * (1 + 0.001 * t);
        zc_sweep_estimate(cell);
    }
    sweep->state = ZC_RUN_DONE;
    sweep->elapsed_s = 12.5;
}

static const char world[] = "{\"peer\": \"self\", \"strategy\": \"copy_blocking,naive_blocking,ideal_blocking\", \"size\": \"1K..256K\", \"qps\": \"1,2\"}";

static void test_crossovers(void **state)
{
    (void)state;
    struct zc_sweep sweep = plan(world);
    struct zc_pair pairs[ZC_PAIRS_MAX];
    struct zc_crossover c;
    fill(&sweep);
    assert_int_equal(zc_sweep_pairs(&sweep, pairs), 2);     /* the families, and the two in the table's order */
    for (int m = 0; m < ZC_METRIC_COUNT; m++) {
        zc_sweep_crossover(&sweep, &pairs[0], (enum zc_metric)m, &c);
        assert_int_equal(c.kind, ZC_CROSSOVER_FOUND);
        assert_int_equal(c.crossings[0].low_bytes, 8 * 1024);
        assert_int_equal(c.crossings[0].high_bytes, 16 * 1024);
        assert_int_equal(c.crossings[0].below, 0);
    }
    zc_sweep_destroy(&sweep);
}

static void no_threshold(const char *json, double (*figure)(const struct zc_cell *cell, int trial), const char *words)
{
    struct zc_sweep sweep = plan(json);
    struct zc_error err = { 0 };
    uint64_t bytes = 12345;
    for (uint32_t i = 0; i < sweep.cell_count; i++) {
        sweep.cells[i].trial_count = 7;
        for (int t = 0; t < 7; t++)
            sweep.cells[i].trials[t].figures[ZC_METRIC_THROUGHPUT] = figure(&sweep.cells[i], t);
        zc_sweep_estimate(&sweep.cells[i]);
    }
    assert_int_equal(zc_sweep_threshold(&sweep, &bytes, &err), -ENODATA);
    assert_string_equal(err.field, "threshold");
    assert_int_equal(bytes, 12345);
    if (!strstr(err.message, words))
        fail_msg("%s", err.message);
    zc_sweep_destroy(&sweep);
}

static bool is_copy(const struct zc_cell *cell)
{
    return cell->options.strategy == ZC_COPY_BLOCKING;
}

static double copy_wins(const struct zc_cell *cell, int trial)
{
    return (is_copy(cell) ? 2 : 1) + 0.001 * trial;
}

static double noise(const struct zc_cell *cell, int trial)
{
    (void)cell;
    return 1 + trial;
}

static double unknown(const struct zc_cell *cell, int trial)
{
    return trial < 3 ? copy_wins(cell, trial) : NAN;
}

static double the_other_way_round(const struct zc_cell *cell, int trial)
{
    return is_copy(cell) == (cell->options.size_bytes > 8192) ? 2 + 0.001 * trial : 1;
}

static double to_and_fro(const struct zc_cell *cell, int trial)
{
    return is_copy(cell) == (cell->options.size_bytes / 4096 % 2 == 0) ? 2 + 0.001 * trial : 1;
}

/* The smallest size at which registering is known to be better; no number where there is none. */
static void test_threshold(void **state)
{
    (void)state;
    static const char two[] = "{\"peer\": \"self\", \"strategy\": \"copy_blocking,naive_blocking\", \"size\": \"4K,8K,12K,16K\"}";
    struct zc_sweep sweep = plan(world);
    struct zc_error err = { 0 };
    uint64_t bytes = 0;
    fill(&sweep);
    assert_int_equal(zc_sweep_threshold(&sweep, &bytes, &err), 0);
    assert_int_equal(bytes, 16 * 1024);
    zc_sweep_destroy(&sweep);
    no_threshold(two, copy_wins, "no crossover: copying wins at every size that tells them apart (4 of 4)");
    no_threshold(two, noise, "too noisy");
    no_threshold(two, unknown, "too few trials");
    no_threshold(two, the_other_way_round, "registering is better up to 8K and copying from 12K on");
    no_threshold(two, to_and_fro, "changes 3 times, first between 4K and 8K");
    no_threshold("{\"peer\": \"self\", \"strategy\": \"copy_blocking\", \"size\": \"4K,8K\"}", copy_wins, "only one of");
}

static void test_recommendation(void **state)
{
    (void)state;
    struct zc_sweep sweep = plan(world);
    struct zc_recommendation r;
    fill(&sweep);
    snprintf(sweep.environment.device.name, sizeof sweep.environment.device.name, "zcsoft0");
    sweep.environment.device.kind = ZC_DEVICE_SOFTWARE;
    zc_recommend(&sweep, ZC_GOAL_THROUGHPUT, 0, &r);
    assert_true(r.count >= 3 && r.count <= 6);
    assert_non_null(strstr(r.sentences[0], "up to 8 KiB copy, from 16 KiB on register"));
    assert_non_null(strstr(r.sentences[1], "naive_blocking"));      /* the largest size is its own */
    assert_non_null(strstr(r.sentences[r.count - 1], "software device"));
    assert_non_null(strstr(r.command, "zcctl run --strategy naive_blocking --peer self --size 256K --qps 1"));
    zc_recommend(&sweep, ZC_GOAL_LATENCY, 2000, &r);
    assert_non_null(strstr(r.command, "--strategy copy_blocking --peer self --size 2K"));
    zc_sweep_destroy(&sweep);

    sweep = plan("{\"peer\": \"self\", \"strategy\": \"copy_blocking\", \"size\": 4096}");
    zc_recommend(&sweep, ZC_GOAL_CPU, 0, &r);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.command, "");
    zc_sweep_destroy(&sweep);
}

/* There and back: the trials of a stored sweep, those of a bisection included, are where they were. */
static void test_document(void **state)
{
    (void)state;
    struct zc_sweep sweep = plan(world), back;
    struct zc_error err = { 0 };
    const int added = zc_sweep_add_cell(&sweep, &sweep.cells[0], 11 * 1024);
    assert_int_equal(added, (int)sweep.cell_count - 1);
    assert_int_equal(zc_sweep_add_cell(&sweep, &sweep.cells[0], 11 * 1024), added);
    fill(&sweep);
    sweep.cells[3].trials[2].figures[ZC_METRIC_P99] = NAN;
    zc_sweep_estimate(&sweep.cells[3]);
    json_t *const document = zc_sweep_to_json(&sweep);
    assert_non_null(document);
    assert_valid(document, "sweep", "--loose", "full");
    if (zc_sweep_from_json(document, &back, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(back.cell_count, sweep.cell_count);
    assert_true(back.elapsed_s == 12.5);
    json_t *const again = zc_sweep_to_json(&back);
    assert_true(json_equal(json_object_get(document, "cells"), json_object_get(again, "cells")));
    assert_true(json_equal(json_object_get(document, "config"), json_object_get(again, "config")));
    assert_true(json_equal(json_object_get(document, "crossovers"), json_object_get(again, "crossovers")));
    json_decref(again);
    zc_sweep_destroy(&back);
    json_object_set_new(document, "kind", json_string("run"));
    assert_true(zc_sweep_from_json(document, &back, &err) < 0);
    json_decref(document);
    zc_sweep_destroy(&sweep);
}

/* The largest document fits into one message. */
static void test_largest(void **state)
{
    (void)state;
    struct zc_sweep sweep = plan("{\"peer\": \"self\", \"strategy\": \"copy_blocking\", \"size\": \"1K..1G\", \"qps\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "
                                 "\"wait\": \"poll,event\"}");
    fill(&sweep);
    for (uint32_t i = 0; sweep.cell_count < ZC_SWEEP_CELLS_MAX; i++)
        assert_true(zc_sweep_add_cell(&sweep, &sweep.cells[i % 504], 1000 + 64 * i) >= 0);
    fill(&sweep);
    for (uint32_t i = 0; i < sweep.cell_count; i++)
        for (int t = 0; t < 7; t++)
            for (int m = 0; m < ZC_METRIC_COUNT; m++)
                sweep.cells[i].trials[t].figures[m] *= 1.2345678;
    json_t *const document = zc_sweep_to_json(&sweep);
    assert_true(json_dumpb(document, NULL, 0, ZC_JSON_MESSAGE) < (1 << 20) - 1024);
    json_decref(document);
    zc_sweep_destroy(&sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_words), cmocka_unit_test(test_cells), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_crossovers), cmocka_unit_test(test_threshold), cmocka_unit_test(test_recommendation), cmocka_unit_test(test_document),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
