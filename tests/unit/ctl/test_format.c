/* Figures for people: three digits, no unit change in the middle of a rounding, "-" for null. */
#include "../proto/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "progress.h"

static void test_numbers(void **state)
{
    (void)state;
    assert_string_equal(format_number(0).s, "0");
    assert_string_equal(format_number(0.0312).s, "0.031");
    assert_string_equal(format_number(0.99949).s, "0.999");
    assert_string_equal(format_number(0.9996).s, "1.00");
    assert_string_equal(format_number(5.432).s, "5.43");
    assert_string_equal(format_number(9.996).s, "10.0");
    assert_string_equal(format_number(46.64).s, "46.6");
    assert_string_equal(format_number(99.96).s, "100");
    assert_string_equal(format_number(5563.4).s, "5563");
    assert_string_equal(format_number(NAN).s, "-");
    assert_string_equal(format_count(1e15).s, "1000000000000000");
    assert_string_equal(format_count(NAN).s, "-");
}

static void test_times(void **state)
{
    (void)state;
    assert_string_equal(format_ns(0).s, "0 ns");
    assert_string_equal(format_ns(850.4).s, "850 ns");
    assert_string_equal(format_ns(999.6).s, "1.00 us");
    assert_string_equal(format_ns(171234).s, "171 us");
    assert_string_equal(format_ns(999600).s, "1.00 ms");
    assert_string_equal(format_ns(1234567).s, "1.23 ms");
    assert_string_equal(format_ns(1e10).s, "10.0 s");
    assert_string_equal(format_ns(NAN).s, "-");
    assert_string_equal(format_duration(12.9).s, "12 s");
    assert_string_equal(format_duration(200).s, "3 min 20 s");
    assert_string_equal(format_duration(7500).s, "2 h 5 min");
    assert_string_equal(format_duration(1e6).s, "11 d 13 h");
    assert_string_equal(format_duration(NAN).s, "-");
}

static void test_sizes(void **state)
{
    (void)state;
    assert_string_equal(format_bytes(0).s, "0 B");
    assert_string_equal(format_bytes(1023).s, "1023 B");
    assert_string_equal(format_bytes(1024).s, "1 KiB");
    assert_string_equal(format_bytes(65537).s, "64.0 KiB");
    assert_string_equal(format_bytes(1 << 20).s, "1 MiB");
    assert_string_equal(format_bytes((1 << 20) - 1).s, "1.00 MiB");
    assert_string_equal(format_bytes(54.3 * 0x1p30).s, "54.3 GiB");
    assert_string_equal(format_bytes(0x1p50).s, "1024 TiB");
    assert_string_equal(format_bytes(NAN).s, "-");
}

static void test_members(void **state)
{
    json_t *json = json_pack("{s:{s:{s:i, s:n, s:s}}}", "a", "b", "n", 3, "null", "text", "x\033[2J");

    (void)state;
    assert_true(number_at(json, "a.b.n") == 3);
    assert_true(isnan(number_at(json, "a.b.null")));
    assert_true(isnan(number_at(json, "a.b.text")));
    assert_true(isnan(number_at(json, "a.x.n")));
    assert_true(isnan(number_at(NULL, "a")));
    assert_string_equal(text_at(json, "a.b.n"), "-");
    clean_strings(json);
    assert_string_equal(text_at(json, "a.b.text"), "x?[2J");
    json_decref(json);
}

static void test_wrapping(void **state)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    (void)state;
    fputs("label ", out);
    print_wrapped(out, 6, 16, "one two three fourteen-characters five");
    fclose(out);
    assert_string_equal(text, "label one two\n      three\n      fourteen-characters\n      five\n");
    free(text);
}

static void expect_progress(const char *params, bool cancelling, int width, const char *expected)
{
    json_error_t why;
    json_t *json = json_loads(params, 0, &why);
    char line[160];

    assert_non_null(json);
    progress_line(json, cancelling, width, line, sizeof(line));
    assert_string_equal(line, expected);
    json_decref(json);
}

static void test_progress_line(void **state)
{
    (void)state;
    expect_progress("{\"phase\":\"queued\",\"elapsed_s\":0,\"total_s\":null,\"gib_per_s\":null,\"queue_position\":2}", false, 80,
                    "queued     2 before this one");
    expect_progress("{\"phase\":\"throughput\",\"elapsed_s\":6,\"total_s\":12,\"gib_per_s\":5.432,\"queue_position\":null}", false, 80,
                    "throughput [############            ] 6.0 / 12.0 s   5.43 GiB/s");
    expect_progress("{\"phase\":\"cost\",\"elapsed_s\":13,\"total_s\":12,\"gib_per_s\":null}", true, 80,
                    "cancelling [########################] 13.0 / 12.0 s");
    expect_progress("{\"phase\":\"cost\",\"elapsed_s\":13,\"total_s\":12}", false, 20, "cost       [#######");
    expect_progress("{}", false, 80, "-          ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_wrapping),
        cmocka_unit_test(test_progress_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
