/* The histogram against exact percentiles of sorted samples. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "histogram.h"

enum { SAMPLES = 200000 };
static uint64_t samples[SAMPLES];
static uint64_t random_state = 88172645463325252u;

static double uniform(void)     /* (0, 1] */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)((random_state >> 11) + 1) / 9007199254740992.0;
}

static uint64_t draw_uniform(void) { return (uint64_t)(1e6 * uniform()); }
static uint64_t draw_exponential(void) { return (uint64_t)(-2e5 * log(uniform())); }
static uint64_t draw_log_normal(void)
{
    return (uint64_t)exp(10 + 2 * sqrt(-2 * log(uniform())) * cos(2 * 3.14159265358979 * uniform()));
}
static uint64_t draw_two_peaks(void) { return uniform() < 0.98 ? 5000 + (uint64_t)(100 * uniform()) : 2000000000; }
static uint64_t draw_constant(void) { return 123457; }
static uint64_t draw_small(void) { return (uint64_t)(40 * uniform()); }
static uint64_t draw_heavy_tail(void) { return (uint64_t)(1000 / pow(uniform(), 1.5)); }

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t exact(double p, size_t count)
{
    const size_t rank = (size_t)ceil(p * (double)count);
    return samples[rank ? rank - 1 : 0];
}

static void assert_within_one_percent(uint64_t found, uint64_t expected)
{
    const double error = fabs((double)found - (double)expected);
    if (error > 0.01 * (double)expected)
        fail_msg("found %lu, exact %lu", (unsigned long)found, (unsigned long)expected);
}

static void test_against_exact_percentiles(void **state)
{
    (void)state;
    uint64_t (*const draws[])(void) = {draw_uniform, draw_exponential, draw_log_normal, draw_two_peaks, draw_constant, draw_small,
                                       draw_heavy_tail};
    struct zc_histogram *histogram = zc_histogram_create();
    for (size_t d = 0; d < sizeof draws / sizeof draws[0]; d++) {
        uint64_t sum = 0;
        zc_histogram_reset(histogram);
        for (size_t i = 0; i < SAMPLES; i++) {
            samples[i] = draws[d]();
            sum += samples[i];
            zc_histogram_record(histogram, samples[i]);
        }
        qsort(samples, SAMPLES, sizeof samples[0], ascending);
        struct zc_latency latency;
        zc_histogram_summarise(histogram, &latency);
        assert_int_equal(latency.count, SAMPLES);
        assert_int_equal(latency.min_ns, samples[0]);
        assert_int_equal(latency.max_ns, samples[SAMPLES - 1]);
        assert_true(latency.mean_ns == (double)sum / SAMPLES);
        assert_within_one_percent(latency.p50_ns, exact(0.50, SAMPLES));
        assert_within_one_percent(latency.p90_ns, exact(0.90, SAMPLES));
        assert_within_one_percent(latency.p95_ns, exact(0.95, SAMPLES));
        assert_within_one_percent(latency.p99_ns, exact(0.99, SAMPLES));
        assert_within_one_percent(latency.p99_9_ns, exact(0.999, SAMPLES));
        assert_within_one_percent(latency.p99_99_ns, exact(0.9999, SAMPLES));
        for (double p = 0.001; p < 1; p += 0.013)
            assert_within_one_percent(zc_histogram_quantile(histogram, p), exact(p, SAMPLES));
        assert_int_equal(zc_histogram_quantile(histogram, 1), samples[SAMPLES - 1]);
    }
    zc_histogram_destroy(histogram);
}

/* Every value from 1 ns to beyond an hour lands in a bucket whose midpoint is within 1 %. */
static void test_relative_error_over_the_range(void **state)
{
    (void)state;
    struct zc_histogram *histogram = zc_histogram_create();
    for (double value = 1; value < 4.2e12; value *= 1.0037) {
        const uint64_t middle = (uint64_t)value;
        zc_histogram_reset(histogram);
        zc_histogram_record(histogram, 0);              /* so that clamping to [min, max] does not hide the midpoint */
        zc_histogram_record(histogram, middle);
        zc_histogram_record(histogram, UINT64_C(1) << 50);
        assert_within_one_percent(zc_histogram_quantile(histogram, 0.5), middle);
    }
    zc_histogram_destroy(histogram);
}

static void test_top_is_clamped_but_the_maximum_exact(void **state)
{
    (void)state;
    struct zc_histogram *histogram = zc_histogram_create();
    const uint64_t days = UINT64_C(86400) * 3 * 1000000000;
    zc_histogram_record(histogram, 5);
    zc_histogram_record(histogram, days);
    struct zc_latency latency;
    zc_histogram_summarise(histogram, &latency);
    assert_int_equal(latency.max_ns, days);
    assert_int_equal(latency.min_ns, 5);
    assert_int_equal(zc_histogram_quantile(histogram, 1), days);
    zc_histogram_destroy(histogram);
}

static void test_empty_is_unmeasured(void **state)
{
    (void)state;
    struct zc_histogram *histogram = zc_histogram_create();
    struct zc_latency latency;
    zc_histogram_summarise(histogram, &latency);
    assert_int_equal(latency.count, 0);
    assert_true(latency.min_ns == ZC_UNMEASURED && latency.p50_ns == ZC_UNMEASURED && latency.max_ns == ZC_UNMEASURED);
    assert_true(isnan(latency.mean_ns));
    assert_true(zc_histogram_quantile(histogram, 0.5) == ZC_UNMEASURED);
    zc_histogram_destroy(histogram);
}

/* count >= 10 / (1 - p) exactly: at the bound it is there, one sample below it is not. */
static void test_null_rule(void **state)
{
    (void)state;
    static const struct { uint64_t need; size_t field; } rows[] = {
        {20, offsetof(struct zc_latency, p50_ns)},       {100, offsetof(struct zc_latency, p90_ns)},
        {200, offsetof(struct zc_latency, p95_ns)},      {1000, offsetof(struct zc_latency, p99_ns)},
        {10000, offsetof(struct zc_latency, p99_9_ns)},  {100000, offsetof(struct zc_latency, p99_99_ns)},
    };
    struct zc_histogram *histogram = zc_histogram_create();
    uint64_t recorded = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct zc_latency latency;
        const uint64_t *const figure = (const uint64_t *)((const char *)&latency + rows[i].field);
        for (; recorded < rows[i].need - 1; recorded++)
            zc_histogram_record(histogram, 1000);
        zc_histogram_summarise(histogram, &latency);
        assert_true(*figure == ZC_UNMEASURED);
        zc_histogram_record(histogram, 1000);
        recorded++;
        zc_histogram_summarise(histogram, &latency);
        assert_int_equal(*figure, 1000);
    }
    zc_histogram_destroy(histogram);
}

static void test_added_up(void **state)
{
    (void)state;
    struct zc_histogram *a = zc_histogram_create(), *b = zc_histogram_create(), *both = zc_histogram_create();
    struct zc_latency sum, expected;
    for (uint64_t i = 1; i <= 1000; i++) {
        zc_histogram_record(i % 3 ? a : b, i * 1000);
        zc_histogram_record(both, i * 1000);
    }
    zc_histogram_add(a, b);
    zc_histogram_summarise(a, &sum);
    zc_histogram_summarise(both, &expected);
    assert_memory_equal(&sum, &expected, sizeof sum);
    zc_histogram_reset(b);
    zc_histogram_add(a, b);         /* nothing recorded changes nothing */
    zc_histogram_summarise(a, &sum);
    assert_memory_equal(&sum, &expected, sizeof sum);
    zc_histogram_destroy(a);
    zc_histogram_destroy(b);
    zc_histogram_destroy(both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_exact_percentiles),
        cmocka_unit_test(test_relative_error_over_the_range),
        cmocka_unit_test(test_top_is_clamped_but_the_maximum_exact),
        cmocka_unit_test(test_empty_is_unmeasured),
        cmocka_unit_test(test_null_rule),
        cmocka_unit_test(test_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
