/* The options that set the terms of a run, and which of them go together. */
#include "unit.h"

#include <string.h>

#include "options.h"

static void give(struct zc_run_options *options, const char *name, const char *text)
{
    struct zc_error err;

    assert_int_equal(zc_option_parse(zc_option_find(name, strlen(name)), text, options, &err), 0);
}

static struct zc_run_options some_options(void)
{
    struct zc_run_options options;

    zc_run_options_init(&options);
    give(&options, "strategy", "copy_blocking");
    give(&options, "peer", "self");
    return options;
}

static void test_defaults(void **state)
{
    struct zc_run_options options = some_options();
    struct zc_error err;

    (void)state;
    assert_int_equal(options.buffers, ZC_BUFFERS_REUSE);
    assert_int_equal(options.pages, ZC_PAGES_DEFAULT);
    assert_false(options.consume);
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
}

static void test_fresh_pages(void **state)
{
    struct zc_run_options options = some_options();
    struct zc_error err;

    (void)state;
    give(&options, "buffers", "fresh");
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
    give(&options, "pages", "thp");
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
    give(&options, "pages", "2m");
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "buffers");
    assert_non_null(strstr(err.message, "pages default or thp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_fresh_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
