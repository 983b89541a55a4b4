/* The pattern must tell any place of the region from any other, at any alignment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clock.h"
#include "pattern.h"

enum { SIZE = 1 << 20 };
static const uint64_t SEED = 42;
static uint8_t bytes[SIZE + 64], copy[SIZE + 64];

static void test_fill_agrees_with_byte(void **state)
{
    (void)state;
    for (size_t align = 0; align < 9; align++)
        for (uint64_t offset = 0; offset < 17; offset++)
            for (size_t length = 0; length < 40; length++) {
                memset(bytes, 0xee, 64);
                zc_pattern_fill(bytes + align, length, offset, SEED);
                for (size_t i = 0; i < length; i++)
                    assert_int_equal(bytes[align + i], zc_pattern_byte(offset + i, SEED));
                assert_int_equal(bytes[align + length], 0xee);
                if (align > 0)
                    assert_int_equal(bytes[align - 1], 0xee);
            }
}

static void test_check_accepts_what_fill_wrote(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 7, 8, 9, 255, 256, 257, 4095, 4096, 65537, SIZE};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (uint64_t offset = (UINT64_C(1) << 33) - 3; offset < (UINT64_C(1) << 33) + 9; offset++) {
            size_t bad = 12345;
            zc_pattern_fill(bytes + offset % 5, lengths[i], offset, SEED);
            assert_true(zc_pattern_check(bytes + offset % 5, lengths[i], offset, SEED, &bad));
            assert_int_equal(bad, 12345);
        }
}

static void test_one_wrong_byte_is_named(void **state)
{
    (void)state;
    const size_t length = 3000;
    for (uint64_t offset = 0; offset < 8; offset++) {
        zc_pattern_fill(bytes, length, offset, SEED);
        for (size_t wrong = 0; wrong < length; wrong++) {
            size_t bad = SIZE;
            bytes[wrong] ^= 1;
            assert_false(zc_pattern_check(bytes, length, offset, SEED, &bad));
            assert_int_equal(bad, wrong);
            bytes[wrong] ^= 1;
        }
    }
}

static void test_swapped_chunks_are_caught(void **state)
{
    (void)state;
    static const size_t chunks[] = {8, 64, 256, 4096, 65536, SIZE / 2};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        const size_t chunk = chunks[i];
        size_t bad = SIZE;
        zc_pattern_fill(bytes, SIZE, 0, SEED);
        memcpy(copy, bytes, chunk);
        memcpy(bytes, bytes + chunk, chunk);
        memcpy(bytes + chunk, copy, chunk);
        assert_false(zc_pattern_check(bytes, SIZE, 0, SEED, &bad));
        assert_in_range(bad, 0, 7);
    }
}

/* No period: a region shifted by any whole number of words matches nowhere (4-bytes shifts need 8 bytes to be sure). */
static void test_no_shift_matches(void **state)
{
    (void)state;
    size_t bad;
    zc_pattern_fill(bytes, SIZE, 0, SEED);
    for (size_t shift = 1; shift < SIZE - 64; shift = shift < 5000 ? shift + 1 : shift * 2)
        assert_false(zc_pattern_check(bytes + shift, 32, 0, SEED, &bad));
    for (unsigned bit = 3; bit < 64; bit++)     /* and by every power of two of a 64-bit offset */
        assert_false(zc_pattern_check(bytes, 32, UINT64_C(1) << bit, SEED, &bad));
}

static void test_seeds_differ(void **state)
{
    (void)state;
    size_t bad;
    zc_pattern_fill(bytes, 4096, 0, SEED);
    assert_false(zc_pattern_check(bytes, 4096, 0, SEED + 1, &bad));
    for (uint64_t shift = 0; shift < 4096; shift += 8)
        assert_false(zc_pattern_check(bytes, 64, shift, SEED + 1, &bad));
}

static void test_no_poisoned_byte_validates(void **state)
{
    (void)state;
    for (uint64_t offset = 0; offset < 8; offset++) {
        zc_pattern_poison(bytes, 5000, offset, SEED);
        for (size_t i = 0; i < 5000; i++)
            assert_int_equal(bytes[i], 0xff ^ zc_pattern_byte(offset + i, SEED));
    }
}

/* Not a timed test: it prints what it measured. */
static void test_speed(void **state)
{
    (void)state;
    size_t bad;
    const int rounds = 200;
    const uint64_t start = zc_now_ns();
    for (int i = 0; i < rounds; i++)
        zc_pattern_fill(bytes, SIZE, 0, SEED);
    const uint64_t filled = zc_now_ns();
    for (int i = 0; i < rounds; i++)
        assert_true(zc_pattern_check(bytes, SIZE, 0, SEED, &bad));
    const uint64_t checked = zc_now_ns();
    print_message("fill %.1f GB/s, check %.1f GB/s\n", (double)SIZE * rounds / (double)(filled - start),
                  (double)SIZE * rounds / (double)(checked - filled));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_agrees_with_byte),
        cmocka_unit_test(test_check_accepts_what_fill_wrote),
        cmocka_unit_test(test_one_wrong_byte_is_named),
        cmocka_unit_test(test_swapped_chunks_are_caught),
        cmocka_unit_test(test_no_shift_matches),
        cmocka_unit_test(test_seeds_differ),
        cmocka_unit_test(test_no_poisoned_byte_validates),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
