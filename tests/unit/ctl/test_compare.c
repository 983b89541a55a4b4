/* Comparisons: what is called better, worse or noise, and that results of the same thing hardly ever are called different. */
#include "../proto/unit.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "documents.h"
#include "output.h"

enum { TRIALS = 7, PAIRS = 100 };

/* A generator of our own: the same figures on every machine. */
static uint64_t state_;

static double uniform(void)
{
    state_ = state_ * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state_ >> 11) + 0.5) / 0x1p53;
}

/* About `centre`, with a spread of 5 % and now and then a trial that something disturbed. */
static double noisy(double centre)
{
    double normal = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());

    return centre * (1 + 0.05 * normal) * (uniform() < 0.1 ? 0.6 : 1);
}

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) < 1e-9))
        fail_msg("%g is not %g", value, wanted);
}

static json_t *noisy_trials(double centre)
{
    json_t *values = json_array();

    for (int i = 0; i < TRIALS; i++)
        json_array_append_new(values, json_real(noisy(centre)));
    return values;
}

static json_t *sweep(const char *id, double factor)
{
    json_t *cells = json_array();

    for (int size = 4096; size <= 65536; size *= 4)
        json_array_append_new(cells, json_pack("{s:s, s:i, s:i, s:{s:o, s:o, s:[], s:o}}", "strategy", "copy_blocking", "size", size,
            "qps", 4, "trials", "gib_per_s", noisy_trials(2 * factor), "p50_ns", noisy_trials(1e5 / factor), "p99_ns",
            "cpu_s_per_gib", noisy_trials(0.5 / factor)));
    return json_pack("{s:s, s:s, s:{s:[i,i], s:s}, s:o}", "id", id, "kind", "sweep", "config", "qps", 1, 4, "peer", id, "cells", cells);
}

static json_t *compare_sweeps(double a, double b, double fail_over)
{
    json_t *documents = json_pack("[o, o]", sweep("a", a), sweep("b", b)), *comparison = compare_documents(documents, 1, fail_over);

    json_decref(documents);
    assert_non_null(comparison);
    return comparison;
}

static int verdicts(const json_t *comparison, enum verdict verdict)
{
    return (int)json_integer_value(json_object_get(json_object_get(comparison, "verdicts"), verdict_names[verdict]));
}

/* The same thing measured twice, a hundred times: at most 5 pairs may have a figure that is called different, and none fails a gate of
 * 20 %. */
static void test_same_against_same(void **state)
{
    int different = 0, noise = 0;

    (void)state;
    state_ = 1;
    for (int pair = 0; pair < PAIRS; pair++) {
        json_t *comparison = compare_sweeps(1, 1, 0.2);
        different += verdicts(comparison, VERDICT_BETTER) + verdicts(comparison, VERDICT_WORSE) > 0;
        noise += verdicts(comparison, VERDICT_NOISE);
        assert_false(json_is_true(json_object_get(comparison, "failed")));
        json_decref(comparison);
    }
    assert_true(different <= 5);
    assert_true(noise > 9 * (PAIRS - 5));       /* 3 sizes, 3 figures */
}

static void test_worse_and_better(void **state)
{
    json_t *comparison;

    (void)state;
    state_ = 7;
    comparison = compare_sweeps(1, 0.4, 0.05);
    assert_int_equal(verdicts(comparison, VERDICT_WORSE), 9);   /* slower, later and dearer */
    assert_true(json_is_true(json_object_get(comparison, "failed")));
    json_decref(comparison);
    comparison = compare_sweeps(1, 0.4, 2);
    assert_int_equal(verdicts(comparison, VERDICT_WORSE), 9);
    assert_false(json_is_true(json_object_get(comparison, "failed")));      /* not by that much */
    json_decref(comparison);
    comparison = compare_sweeps(0.4, 1, 0.05);
    assert_int_equal(verdicts(comparison, VERDICT_BETTER), 9);
    assert_false(json_is_true(json_object_get(comparison, "failed")));
    assert_int_equal(json_array_size(json_object_get(json_object_get(comparison, "differences"), "config.peer")), 2);
    json_decref(comparison);
}

static void test_interval_of_a_change(void **state)
{
    struct zc_estimate a = { .trials = 7, .median = 2, .low = 1.9, .high = 2.1 }, b = { .trials = 7, .median = 1, .low = 0.9, .high = 1.1 };
    struct difference d = compare_estimates(&a, &b, true);

    (void)state;
    assert_near(d.change, -0.5);
    assert_near(d.low, 0.9 / 2.1 - 1);
    assert_near(d.high, 1.1 / 1.9 - 1);
    assert_int_equal(d.verdict, VERDICT_WORSE);
    assert_int_equal(compare_estimates(&a, &b, false).verdict, VERDICT_BETTER);
    b.high = 1.9;       /* they touch */
    assert_int_equal(compare_estimates(&a, &b, true).verdict, VERDICT_NOISE);
    b.low = b.high = NAN;
    assert_int_equal(compare_estimates(&a, &b, true).verdict, VERDICT_UNKNOWN);
    assert_true(isnan(compare_estimates(&a, &b, true).low));
    b.median = NAN;
    assert_true(isnan(compare_estimates(&a, &b, true).change));
}

static json_t *run(const char *strategy, int qps, double rate)
{
    return json_pack("{s:s, s:s, s:{s:s, s:i, s:i}, s:{s:f}, s:{s:{s:n}}}", "id", "run", "strategy", strategy, "config", "strategy", strategy,
                     "size", 65536, "qps", qps, "throughput", "gib_per_s", rate, "latency", "available", "p50_ns");
}

/* Runs have one trial each; several make an interval. Options that differ are in the label. */
static void test_runs(void **state)
{
    json_t *documents = json_array(), *comparison, *cell;

    (void)state;
    json_array_append_new(documents, run("copy_blocking", 1, 2));
    json_array_append_new(documents, run("naive_blocking", 4, 1));
    comparison = compare_documents(documents, 1, 0.05);
    cell = json_array_get(json_object_get(comparison, "cells"), 0);
    assert_string_equal(text_at(cell, "label"), "copy_blocking, qps 1 -> naive_blocking, qps 4");
    assert_string_equal(text_at(cell, "gib_per_s.verdict"), "unknown");
    assert_near(number_at(cell, "gib_per_s.change"), -0.5);
    assert_true(json_is_null(json_object_get(cell, "p50_ns")));     /* neither has it */
    assert_false(json_is_true(json_object_get(comparison, "failed")));
    json_decref(comparison);

    json_array_clear(documents);
    for (int i = 0; i < 6; i++)
        json_array_append_new(documents, run("copy_blocking", 1, 2 + 0.01 * i));
    for (int i = 0; i < 6; i++)
        json_array_append_new(documents, run("copy_blocking", 1, 1 + 0.01 * i));
    comparison = compare_documents(documents, 6, 0.05);
    cell = json_array_get(json_object_get(comparison, "cells"), 0);
    assert_int_equal(json_array_size(json_object_get(comparison, "cells")), 1);
    assert_string_equal(text_at(cell, "gib_per_s.verdict"), "worse");
    assert_true(json_is_true(json_object_get(comparison, "failed")));
    json_decref(comparison);
    json_decref(documents);
}

/* Cells that only one side has are counted, not compared. */
static void test_unmatched(void **state)
{
    json_t *documents = json_array(), *comparison;

    (void)state;
    json_array_append_new(documents, run("copy_blocking", 1, 2));
    json_array_append_new(documents, run("copy_async", 1, 2));
    json_array_append_new(documents, run("copy_async", 1, 3));
    comparison = compare_documents(documents, 2, 0.05);
    assert_int_equal(json_array_size(json_object_get(comparison, "cells")), 1);
    assert_int_equal(json_integer_value(json_object_get(comparison, "only_a")), 1);
    assert_int_equal(json_integer_value(json_object_get(comparison, "only_b")), 0);
    json_decref(comparison);
    json_decref(documents);
}

static void test_table(void **state)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    json_t *comparison;

    (void)state;
    state_ = 7;
    comparison = compare_sweeps(1, 0.4, 0.05);
    output_text.compare(out, comparison);
    fclose(out);
    assert_non_null(strstr(text, "copy_blocking, qps 4, 16 KiB\n  throughput "));
    assert_non_null(strstr(text, " worse\n"));
    assert_non_null(strstr(text, "0 better, 9 worse, 0 within noise\n"));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    free(text);
    json_decref(comparison);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_against_same),
        cmocka_unit_test(test_worse_and_better),
        cmocka_unit_test(test_interval_of_a_change),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_unmatched),
        cmocka_unit_test(test_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
