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
    options.pages = ZC_PAGES_DEFAULT;
    options.strategy = ZC_IDEAL_BLOCKING;
    options.skip_validation = true;
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "buffers");
    options.buffers = ZC_BUFFERS_REUSE;
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
}

static void test_network(void **state)
{
    struct zc_run_options options = some_options();
    struct zc_error err;

    (void)state;
    assert_string_equal(options.device, "auto");
    assert_int_equal(options.relaxed_ordering, ZC_RELAXED_AUTO);
    assert_int_equal(options.tos, 0);
    give(&options, "tos", "255");
    give(&options, "device", "mlx5_0");
    give(&options, "relaxed_ordering", "off");
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
    assert_true(zc_option_parse(zc_option_find("tos", 3), "256", &options, &err) < 0);
}

static void test_numa(void **state)
{
    static const char *const good[] = { "auto", "none", "0", "17", "1023" }, *const bad[] = { "near", "-1", "1x", "12345", "0 " };
    struct zc_run_options options = some_options();
    struct zc_error err;

    (void)state;
    assert_string_equal(options.numa, "auto");
    for (size_t i = 0; i < 5; i++) {
        give(&options, "numa", good[i]);
        assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
        give(&options, "numa", bad[i]);
        assert_true(zc_run_options_check(&options, 0, &err) < 0);
        assert_string_equal(err.field, "numa");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_fresh_pages),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_numa),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
