/* The probe's table and model: the line through registrations, copies and READs between sizes, the crossover of both. */
#include "valid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "probe_json.h"
#include "zc_json.h"

static struct zc_probe probe;

static void row(enum zc_probe_what what, uint64_t size_bytes, double time_s)
{
    double trials_s[9];
    const struct zc_probe_case is = { .what = what, .size_bytes = size_bytes, .threads = 1, .inflight = what == ZC_PROBE_READ };
    for (int i = 0; i < 9; i++)
        trials_s[i] = time_s * (1 + 0.01 * ((i * 5) % 9 - 4));      /* in no order */
    zc_probe_set(zc_probe_add(&probe, &is), trials_s, 9);
}

static void registration(uint64_t size_bytes, double time_s)
{
    row(ZC_PROBE_REGISTER, size_bytes, time_s * 0.75);
    row(ZC_PROBE_DEREGISTER, size_bytes, time_s * 0.25);
}

static int start(void **state)
{
    (void)state;
    zc_probe_init(&probe);
    probe.environment.page_size_bytes = 4096;
    return 0;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%g instead of %g", value, expected);
}

static void test_nothing(void **state)
{
    (void)state;
    assert_false(probe.made);
    assert_int_equal(probe.row_count, 0);
    zc_probe_fit_make(&probe);
    assert_int_equal(probe.fit.sizes, 0);
    assert_true(isnan(probe.fit.base_s) && isnan(probe.fit.per_page_s) && isnan(probe.fit.worst_residual));
    assert_true(isnan(zc_probe_registration_s(&probe, 4096)) && isnan(zc_probe_copy_s(&probe, 4096)));
    assert_true(isnan(zc_probe_read_s(&probe, 4096, false)) && isnan(zc_probe_crossover_bytes(&probe)));
}

static void test_table(void **state)
{
    (void)state;
    const struct zc_probe_case is = { .what = ZC_PROBE_COPY, .size_bytes = 4096, .threads = 1 };
    for (uint32_t i = 0; i < ZC_PROBE_ROWS_MAX; i++)
        assert_non_null(zc_probe_add(&probe, &is));
    assert_null(zc_probe_add(&probe, &is));
    assert_true(isnan(probe.rows[3].time_s.median) && isnan(probe.rows[3].max_s));
    double trials_s[] = { 3, 1, NAN, 7, 2, 5, 4, 6 };
    zc_probe_set(&probe.rows[0], trials_s, 8);
    assert_int_equal(probe.rows[0].time_s.trials, 7);
    assert_near(probe.rows[0].time_s.median, 4);
    assert_near(probe.rows[0].min_s, 1);
    assert_near(probe.rows[0].max_s, 7);
    assert_ptr_equal(zc_probe_find(&probe, &is), &probe.rows[0]);
    assert_null(zc_probe_find(&probe, &(struct zc_probe_case){ .what = ZC_PROBE_COPY, .size_bytes = 4096, .threads = 2 }));
}

static void test_fit(void **state)
{
    (void)state;
    registration(4096, 3e-6 + 0.1e-6);
    zc_probe_fit_make(&probe);
    assert_int_equal(probe.fit.sizes, 1);
    assert_true(isnan(probe.fit.base_s));           /* no line through one point */
    for (uint64_t pages = 4; pages <= 4096; pages *= 4)
        registration(pages * 4096, 3e-6 + 0.1e-6 * (double)pages);
    const struct zc_probe_case others[] = { { .what = ZC_PROBE_REGISTER, .size_bytes = 4096, .threads = 2 },
                                            { .what = ZC_PROBE_REGISTER, .size_bytes = 4096, .threads = 1, .cold = true },
                                            { .what = ZC_PROBE_REGISTER, .size_bytes = 4096, .threads = 1, .pages = ZC_PAGES_2M } };
    for (size_t i = 0; i < 3; i++)
        zc_probe_set(zc_probe_add(&probe, &others[i]), (double[]){ 1, 1, 1, 1, 1, 1, 1 }, 7);   /* of other cases: left out */
    zc_probe_fit_make(&probe);
    assert_int_equal(probe.fit.sizes, 7);
    assert_near(probe.fit.base_s, 3e-6);
    assert_near(probe.fit.per_page_s, 0.1e-6);
    assert_true(probe.fit.worst_residual < 1e-9);
    assert_int_equal(probe.fit.high_bytes, 4096 * 4096);
    assert_near(zc_probe_registration_s(&probe, 8192), 3.2e-6);
    assert_near(zc_probe_registration_s(&probe, 8193), 3.3e-6);     /* whole pages */
}

/* One size was measured in a noisy moment. */
static void test_fit_with_noise(void **state)
{
    (void)state;
    for (uint64_t pages = 1; pages <= 4096; pages *= 4)
        registration(pages * 4096, (3e-6 + 0.1e-6 * (double)pages) * (pages == 4096 ? 8 : 1));
    zc_probe_fit_make(&probe);
    assert_true(fabs(probe.fit.base_s - 3e-6) < 0.1e-6 && fabs(probe.fit.per_page_s - 0.1e-6) < 0.01e-6);
    assert_true(probe.fit.worst_residual > 0.8);
}

/* What bends the other way gives no negative share, and the residual tells. */
static void test_fit_of_no_line(void **state)
{
    (void)state;
    registration(4096, 1e-6);
    registration(16 * 4096, 64e-6);
    registration(256 * 4096, 4096e-6);
    zc_probe_fit_make(&probe);
    assert_true(probe.fit.base_s == 0 && probe.fit.per_page_s > 0);
    assert_true(probe.fit.worst_residual > 0.2);
    start(NULL);
    registration(4096, 9e-6);
    registration(256 * 4096, 1e-6);
    zc_probe_fit_make(&probe);
    assert_true(probe.fit.base_s > 0 && probe.fit.per_page_s == 0);
}

static void test_between(void **state)
{
    (void)state;
    row(ZC_PROBE_COPY, 4096, 1e-6);
    assert_near(zc_probe_copy_s(&probe, 4096), 1e-6);
    assert_true(isnan(zc_probe_copy_s(&probe, 8192)));      /* one point draws nothing */
    row(ZC_PROBE_COPY, 16384, 2e-6);
    row(ZC_PROBE_COPY, 65536, 10e-6);
    assert_near(zc_probe_copy_s(&probe, 16384), 2e-6);
    assert_near(zc_probe_copy_s(&probe, 10240), 1.5e-6);
    assert_near(zc_probe_copy_s(&probe, 40960), 6e-6);
    assert_near(zc_probe_copy_s(&probe, 65536 * 2 - 16384), 18e-6);
    row(ZC_PROBE_READ, 4096, 5e-6);
    row(ZC_PROBE_READ, 65536, 20e-6);
    assert_near(zc_probe_read_s(&probe, 65536, false), 20e-6);
    assert_near(zc_probe_read_s(&probe, 65536, true), 20e-6);       /* the only stream is one of 1 */
    const struct zc_probe_case stream = { .what = ZC_PROBE_READ, .size_bytes = 65536, .threads = 1, .inflight = 16 };
    zc_probe_set(zc_probe_add(&probe, &stream), (double[]){ 4e-6, 4e-6, 4e-6, 4e-6, 4e-6, 4e-6, 4e-6 }, 7);
    assert_near(zc_probe_read_s(&probe, 65536, true), 4e-6);
    assert_near(zc_probe_read_s(&probe, 65536, false), 20e-6);
}

static void model(double base_s, double per_page_s, double copy_byte_s)
{
    start(NULL);
    for (uint64_t pages = 1; pages <= 4096; pages *= 4) {
        registration(pages * 4096, base_s + per_page_s * (double)pages);
        row(ZC_PROBE_COPY, pages * 4096, copy_byte_s * 4096 * (double)pages);
    }
    zc_probe_fit_make(&probe);
}

static void test_crossover(void **state)
{
    (void)state;
    model(20e-6, 0.1e-6, 0.5e-6 / 4096);        /* 20 + 0.1 p = 0.5 p at 50 pages */
    const double bytes = zc_probe_crossover_bytes(&probe);
    assert_true(bytes >= 50 * 4096 && bytes <= 51 * 4096);
    model(20e-6, 0.6e-6, 0.5e-6 / 4096);        /* copying wins everywhere */
    assert_true(isnan(zc_probe_crossover_bytes(&probe)));
    model(0.1e-6, 0.1e-6, 0.5e-6 / 4096);       /* nowhere */
    assert_near(zc_probe_crossover_bytes(&probe), 4096);
}

static const json_t *member(const json_t *document, size_t row_index, const char *name)
{
    const json_t *const value = json_object_get(json_array_get(json_object_get(document, "rows"), row_index), name);
    assert_non_null(value);
    return value;
}

static void test_document(void **state)
{
    (void)state;
    json_t *document = zc_probe_to_json(&probe);
    assert_valid(document, "probe", "--strict", "fresh");
    assert_true(json_is_null(json_object_get(document, "crossover_bytes")));
    json_decref(document);

    start(NULL);
    for (uint64_t pages = 1; pages <= 256; pages *= 256) {
        registration(pages * 4096, 20e-6 + 0.1e-6 * (double)pages);
        row(ZC_PROBE_COPY, pages * 4096, 0.5e-6 * (double)pages);
    }
    zc_probe_fit_make(&probe);
    row(ZC_PROBE_READ, 65536, 20e-6);
    snprintf(zc_probe_add(&probe, &(struct zc_probe_case){ .what = ZC_PROBE_CONNECT, .threads = 1 })->why, ZC_PROBE_WHY_MAX, "refused");
    snprintf(probe.id, sizeof probe.id, "20261129T192210Z-probe-1a2b");
    snprintf(probe.environment.device.name, ZC_NAME_MAX, "zcsoft0");
    probe.environment.device.kind = ZC_DEVICE_SOFTWARE;
    probe.environment.device.port = 1;
    probe.state = ZC_RUN_DONE;
    probe.started_unix_ns = probe.finished_unix_ns = INT64_C(1700000000123456789);
    document = zc_probe_to_json(&probe);
    assert_valid(document, "probe", "--strict", "full");
    assert_true(json_is_string(json_object_get(document, "notice")));
    assert_near(json_number_value(json_object_get(json_object_get(document, "fit"), "base_s")), 20e-6);
    assert_string_equal(json_string_value(member(document, 0, "memory")), "warm");
    const size_t read = json_array_size(json_object_get(document, "rows")) - 2;
    assert_string_equal(json_string_value(member(document, read, "wait")), "poll");
    assert_true(json_is_null(member(document, read, "pages")));
    assert_near(json_number_value(member(document, read, "gib_per_s")), 65536 / 20e-6 / 0x1p30);
    assert_true(json_is_null(member(document, read + 1, "median_s")) && json_is_null(member(document, read + 1, "size_bytes")));
    assert_string_equal(json_string_value(member(document, read + 1, "why")), "refused");
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing, start),
        cmocka_unit_test_setup(test_table, start),
        cmocka_unit_test_setup(test_fit, start),
        cmocka_unit_test_setup(test_fit_with_noise, start),
        cmocka_unit_test_setup(test_fit_of_no_line, start),
        cmocka_unit_test_setup(test_between, start),
        cmocka_unit_test_setup(test_crossover, start),
        cmocka_unit_test_setup(test_document, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
