/* Crossovers: found, none, noisy, unmeasured, and never a number that the intervals do not carry. */
#include "unit.h"

#include <math.h>

#include "crossover.h"

static struct zc_contest contest(uint64_t size, double a, double b, double noise)
{
    return (struct zc_contest){ size, { 7, a, a - noise, a + noise }, { 7, b, b - noise, b + noise } };
}

static void test_found(void **state)
{
    (void)state;
    const struct zc_contest contests[] = {
        contest(4096, 10, 2, 1), contest(8192, 9, 5, 1), contest(16384, 7, 7, 1), contest(32768, 5, 9, 1), contest(65536, 4, 10, 1),
    };
    struct zc_crossover c;
    zc_crossover_find(contests, 5, true, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_FOUND);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.crossings[0].low_bytes, 8192);
    assert_int_equal(c.crossings[0].high_bytes, 32768);     /* the undecided one between them widens the range */
    assert_int_equal(c.crossings[0].below, 0);
    assert_int_equal(c.undecided, 1);
    zc_crossover_find(contests, 5, false, &c);              /* the same figures as latencies */
    assert_int_equal(c.crossings[0].below, 1);
}

static void test_none(void **state)
{
    (void)state;
    const struct zc_contest contests[] = { contest(1, 5, 5, 1), contest(2, 5, 9, 1), contest(4, 5, 5.5, 1) };
    struct zc_crossover c;
    zc_crossover_find(contests, 3, true, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_NONE);
    assert_int_equal(c.winner, 1);
    assert_int_equal(c.sizes, 3);
    assert_int_equal(c.undecided, 2);
}

static void test_noisy(void **state)
{
    (void)state;
    struct zc_contest contests[12];
    struct zc_crossover c;
    for (int i = 0; i < 12; i++)
        contests[i] = contest(UINT64_C(1) << i, 5, 5, 1);
    zc_crossover_find(contests, 12, true, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_NOISY);
    for (int i = 0; i < 12; i++)        /* to and fro at each size: no number can be given */
        contests[i] = contest(UINT64_C(1) << i, 5, i % 2 ? 9 : 1, 1);
    zc_crossover_find(contests, 12, true, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_NOISY);
    assert_int_equal(c.count, 0);
}

static void test_unmeasured(void **state)
{
    (void)state;
    struct zc_contest without = contest(1, 5, 9, 1);
    struct zc_crossover c;
    without.b.low = without.b.high = NAN;
    zc_crossover_find(&without, 1, true, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_UNMEASURED);
    zc_crossover_find(NULL, 0, true, &c);
    assert_int_equal(c.kind, ZC_CROSSOVER_UNMEASURED);
    assert_int_equal(c.winner, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found), cmocka_unit_test(test_none), cmocka_unit_test(test_noisy), cmocka_unit_test(test_unmeasured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
