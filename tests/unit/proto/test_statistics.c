/* Estimates: medians, intervals by the binomial distribution, what is different and what is noise. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "statistics.h"

static struct zc_estimate estimate(const double *values, size_t count)
{
    double copy[64];
    struct zc_estimate made;

    if (count > 0)
        memcpy(copy, values, count * sizeof copy[0]);
    zc_estimate_make(copy, count, &made);
    return made;
}

static void test_median(void **state)
{
    (void)state;
    assert_true(estimate((double[]){ 3, 1, 2 }, 3).median == 2);
    assert_true(estimate((double[]){ 4, 1, 2, 3 }, 4).median == 2.5);
    assert_true(isnan(estimate(NULL, 0).median));
    const struct zc_estimate some = estimate((double[]){ NAN, 5, INFINITY, 7 }, 4);
    assert_int_equal(some.trials, 2);
    assert_true(some.median == 6);
}

/* The tables of the sign test: 6 to 8 values need all of them, 9 to 11 leave out one at each end, 12 to 14 two, 15 and 16 three. */
static void test_interval(void **state)
{
    (void)state;
    static const struct { size_t n, left_out; } known[] = {
        { 6, 0 }, { 7, 0 }, { 8, 0 }, { 9, 1 }, { 11, 1 }, { 12, 2 }, { 14, 2 }, { 15, 3 }, { 16, 3 }, { 17, 4 }, { 20, 5 }, { 24, 6 },
    };
    double values[32];
    for (size_t i = 0; i < 32; i++)
        values[i] = (double)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct zc_estimate e = estimate(values, known[i].n);
        assert_true(e.low == (double)known[i].left_out);
        assert_true(e.high == (double)(known[i].n - 1 - known[i].left_out));
    }
    assert_true(isnan(estimate(values, 5).low) && isnan(estimate(values, 5).high));
}

/* What an interval promises: of many samples, at least 95 % hold the true median; and two of the same are seldom called different. */
static void test_coverage(void **state)
{
    (void)state;
    unsigned seed = 7;
    int missed = 0, different = 0;
    struct zc_estimate before = { .low = NAN };
    for (int round = 0; round < 2000; round++) {
        double values[7];
        for (int i = 0; i < 7; i++)
            values[i] = pow((double)rand_r(&seed) / RAND_MAX, 3);    /* far from normal; its median is 1/8 */
        const struct zc_estimate e = estimate(values, 7);
        missed += e.low > 0.125 || e.high < 0.125;
        different += zc_estimate_compare(&e, &before) != 0;
        before = e;
    }
    assert_true(missed <= 100);
    assert_true(different <= 20);
}

static void test_compare(void **state)
{
    (void)state;
    const struct zc_estimate low = { 7, 2, 1, 3 }, high = { 7, 5, 4, 6 }, wide = { 7, 4, 2, 6 }, none = { 3, 9, NAN, NAN };
    assert_int_equal(zc_estimate_compare(&high, &low), 1);
    assert_int_equal(zc_estimate_compare(&low, &high), -1);
    assert_int_equal(zc_estimate_compare(&low, &wide), 0);
    assert_int_equal(zc_estimate_compare(&none, &low), 0);
    assert_true(zc_estimate_precision(&low) == 0.5);
    assert_true(isnan(zc_estimate_precision(&none)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median), cmocka_unit_test(test_interval), cmocka_unit_test(test_coverage), cmocka_unit_test(test_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
