/* The option table and its text: defaults, ranges, names, sizes, peers, and the words of the errors. */
#include "unit.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "options.h"

static const struct zc_option *option(const char *name)
{
    const struct zc_option *found = zc_option_find(name, strlen(name));

    assert_non_null(found);
    return found;
}

static void test_table(void **state)
{
    size_t count;
    const struct zc_option *table = zc_options(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct zc_run_options options;
        struct zc_error err = { 0 };

        zc_run_options_init(&options);
        if (table[i].default_text != NULL)
            assert_int_equal(zc_option_parse(&table[i], table[i].default_text, &options, &err), 0);
        assert_ptr_equal(option(table[i].name), &table[i]);     /* so no name stands there twice */
        for (const char *c = table[i].name; *c != '\0'; c++)
            assert_true(islower((unsigned char)*c) || *c == '_');
        assert_true(strlen(table[i].help) > 10);
        assert_true(table[i].help[strlen(table[i].help) - 1] != '.');
        assert_null(strchr(table[i].help, '\n'));
        assert_true((table[i].type == ZC_OPTION_FLAG) == (table[i].metavar == NULL));
        assert_true((table[i].type == ZC_OPTION_CHOICE) == (table[i].choices != NULL));
        assert_true(table[i].strategies != 0);
        assert_true(table[i].field < sizeof(options));
    }
}

static void test_defaults(void **state)
{
    struct zc_run_options options;

    (void)state;
    zc_run_options_init(&options);
    assert_int_equal(options.strategy, -1);
    assert_string_equal(options.peer, "");
    assert_int_equal(options.size_bytes, 1 << 20);
    assert_true(options.warmup_s == 1.0 && options.measure_s == 10.0);
    assert_int_equal(options.memory_max_bytes, 1 << 30);
    assert_int_equal(options.operations_max, 64);
    assert_int_equal(options.mr_size_bytes, 256 << 10);
    assert_int_equal(options.mr_count, 0);
    assert_int_equal(options.chunk_size_bytes, 2 << 20);
    assert_int_equal(options.qps, 1);
    assert_int_equal(options.footprint_bytes, 256 << 20);
    assert_int_equal(options.validate, ZC_VALIDATE_FIRST);
    assert_int_equal(options.wait, ZC_WAIT_POLL);
    assert_int_equal(options.offset, ZC_OFFSET_ROTATE);
    assert_false(options.skip_validation || options.skip_latency || options.skip_throughput);
}

static void test_lookup(void **state)
{
    (void)state;
    assert_ptr_equal(option("mr-size"), option("mr_size"));
    assert_ptr_equal(zc_option_find("size=1M", 4), option("size"));
    assert_null(zc_option_find("siz", 3));
    assert_null(zc_option_find("", 0));
    assert_string_equal(zc_option_nearest("szie"), "size");
    assert_string_equal(zc_option_nearest("mrsize"), "mr_size");
    assert_string_equal(zc_option_nearest("operations"), "operations_max");
    assert_string_equal(zc_option_nearest("skip-validtion"), "skip_validation");
    assert_null(zc_option_nearest("colour"));
    assert_null(zc_option_nearest("x"));
    assert_null(zc_option_nearest("a-name-that-is-much-longer-than-any-name-in-the-table-could-ever-be"));
    assert_int_equal(zc_choice_find(zc_strategy_names, "copy-blocking"), ZC_COPY_BLOCKING);
    assert_int_equal(zc_choice_find(zc_wait_names, "even"), -1);
}

static void test_size_parse(void **state)
{
    static const struct { const char *text; int rc; uint64_t bytes; } cases[] = {
        { "0", 0, 0 }, { "1", 0, 1 }, { "64K", 0, 65536 }, { "64k", 0, 65536 }, { "1M", 0, 1 << 20 }, { "1MiB", 0, 1 << 20 },
        { "1mib", 0, 1 << 20 }, { "1000000", 0, 1000000 }, { "3G", 0, UINT64_C(3) << 30 }, { "2TiB", 0, UINT64_C(2) << 40 },
        { "16777215T", 0, UINT64_C(16777215) << 40 }, { "18446744073709551615", 0, UINT64_MAX },
        { "16777216T", -ERANGE, 0 }, { "18446744073709551616", -ERANGE, 0 }, { "99999999999999999999999999", -ERANGE, 0 },
        { "", -EINVAL, 0 }, { "-1", -EINVAL, 0 }, { "+1", -EINVAL, 0 }, { " 1", -EINVAL, 0 }, { "1 ", -EINVAL, 0 },
        { "1e30", -EINVAL, 0 }, { "1.5M", -EINVAL, 0 }, { "1Q", -EINVAL, 0 }, { "1KB", -EINVAL, 0 }, { "1Ki", -EINVAL, 0 },
        { "1MM", -EINVAL, 0 }, { "M", -EINVAL, 0 }, { "0x10", -EINVAL, 0 }, { "one", -EINVAL, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 12345;
        assert_int_equal(zc_size_parse(cases[i].text, &bytes), cases[i].rc);
        assert_int_equal(bytes, cases[i].rc == 0 ? cases[i].bytes : 12345);
    }
}

static void test_size_format(void **state)
{
    static const uint64_t sizes[] = { 0, 1, 1000, 1023, 1024, 1025, 65536, 1 << 20, 1000000, UINT64_C(1) << 40, UINT64_C(1) << 50,
                                      UINT64_MAX };
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t bytes = 0;
        assert_int_equal(zc_size_parse(zc_size_format(sizes[i], text, sizeof(text)), &bytes), 0);
        assert_int_equal(bytes, sizes[i]);
    }
    assert_string_equal(zc_size_format(65536, text, sizeof(text)), "64K");
    assert_string_equal(zc_size_format(UINT64_C(1) << 50, text, sizeof(text)), "1024T");
    assert_string_equal(zc_size_format(1000000, text, sizeof(text)), "1000000");
}

static void test_errors_name_field_value_and_limit(void **state)
{
    static const struct { const char *name, *text, *message; } cases[] = {
        { "size", "1e30", "size: \"1e30\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "size", "0", "size: 0 is below the minimum of 1" },
        { "size", "1025G", "size: 1025G is above the maximum of 1T" },
        { "size", "99999999999999999999", "size: \"99999999999999999999\" is above the maximum of 1T" },
        { "size", "", "size: \"\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "size", "bad\nline", "size: \"bad?line\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "mr_size", "2G", "mr_size: 2G is above the maximum of 1G" },
        { "measure", "0", "measure: 0 is below the minimum of 0.001" },
        { "measure", "1e9", "measure: \"1e9\" is not a number of seconds (use for instance 10 or 0.5)" },
        { "measure", "nan", "measure: \"nan\" is not a number of seconds (use for instance 10 or 0.5)" },
        { "measure", ".", "measure: \".\" is not a number of seconds (use for instance 10 or 0.5)" },
        { "measure", "1.2.3", "measure: \"1.2.3\" is not a number of seconds (use for instance 10 or 0.5)" },
        { "measure", "86401", "measure: 86401 is above the maximum of 86400" },
        { "operations_max", "0", "operations_max: 0 is below the minimum of 1" },
        { "operations_max", "64K", "operations_max: \"64K\" is not a whole number" },
        { "operations_max", "65537", "operations_max: 65537 is above the maximum of 65536" },
        { "strategy", "copy_blokcing", "strategy: \"copy_blokcing\" is not a strategy (did you mean copy_blocking?)" },
        { "strategy", "magic", "strategy: \"magic\" is not a strategy (for instance copy_blocking; `zcctl strategies` lists all)" },
        { "validate", "some", "validate: \"some\" is not one of none, first, all" },
        { "wait", "pol", "wait: \"pol\" is not a choice (did you mean poll?)" },
        { "skip_latency", "yes", "skip_latency: \"yes\" is not true or false" },
        { "peer", "", "peer: it is empty" },
        { "size", NULL, "size: the value is missing" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zc_run_options options, before;
        struct zc_error err = { 0 };

        zc_run_options_init(&options);
        before = options;
        assert_true(zc_option_parse(option(cases[i].name), cases[i].text, &options, &err) < 0);
        assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.field, cases[i].name);
        assert_int_equal(err.kind, ZC_ERR_INVALID);
        assert_memory_equal(&options, &before, sizeof(options));
    }
}

static void test_long_values(void **state)
{
    struct zc_run_options options;
    struct zc_error err;
    char text[2000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    zc_run_options_init(&options);
    assert_true(zc_option_parse(option("size"), text, &options, &err) < 0);
    assert_true(strlen(err.message) < 200);
    assert_true(zc_option_parse(option("peer"), text, &options, &err) < 0);
    assert_string_equal(err.message, "peer: 1999 characters are above the maximum of 255");
    text[ZC_PEER_MAX - 1] = '\0';
    assert_int_equal(zc_option_parse(option("peer"), text, &options, &err), 0);
}

static void test_typed_values(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    zc_run_options_init(&options);
    assert_int_equal(zc_option_store_integer(option("size"), (UINT64_C(1) << 40), &options, &err), 0);
    assert_int_equal(zc_option_store_integer(option("size"), (UINT64_C(1) << 53) + 1, &options, &err), -ERANGE);
    assert_string_equal(err.message, "size: 9007199254740993 is above the maximum of 1T");
    assert_int_equal(zc_option_store_seconds(option("warmup"), 0, &options, &err), 0);
    assert_int_equal(zc_option_store_seconds(option("warmup"), -1, &options, &err), -ERANGE);
    assert_true(zc_option_store_seconds(option("warmup"), 0.0 / 0.0, &options, &err) < 0);
}

static uint64_t bit(const char *name)
{
    size_t count;

    return UINT64_C(1) << (option(name) - zc_options(&count));
}

static void test_check(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    zc_run_options_init(&options);
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "strategy");
    options.strategy = ZC_COPY_BLOCKING;
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "peer");
    strcpy(options.peer, "host:0");
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "peer");
    strcpy(options.peer, "self");
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
    assert_false(options.skip_validation);

    options.skip_validation = true;
    assert_true(zc_run_options_check(&options, bit("skip_validation") | bit("validate"), &err) < 0);
    assert_non_null(strstr(err.message, "skip_validation"));
    assert_non_null(strstr(err.message, "validate first"));
    assert_int_equal(zc_run_options_check(&options, bit("skip_validation"), &err), 0);
    assert_int_equal(options.validate, ZC_VALIDATE_NONE);
    assert_int_equal(zc_run_options_check(&options, bit("skip_validation") | bit("validate"), &err), 0);    /* both say none */

    options.skip_validation = false;
    assert_int_equal(zc_run_options_check(&options, bit("validate"), &err), 0);
    assert_true(options.skip_validation);

    options.skip_latency = options.skip_throughput = true;
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_non_null(strstr(err.message, "skip_latency"));
    assert_non_null(strstr(err.message, "skip_throughput"));
}

static void test_pieces(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    zc_run_options_init(&options);
    options.strategy = ZC_COPY_BLOCKING;
    strcpy(options.peer, "self");
    assert_int_equal(options.pieces, 1);
    options.size_bytes = 7;
    options.pieces = 7;
    options.align_bytes = 64;
    assert_int_equal(zc_run_options_check(&options, 0, &err), 0);
    options.pieces = 8;
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "pieces");
    options.pieces = 7;
    options.align_bytes = 65;
    assert_true(zc_run_options_check(&options, 0, &err) < 0);
    assert_string_equal(err.field, "align");
}

static int check(int strategy, const char *given_option, const char *value, struct zc_run_options *options, struct zc_error *err)
{
    *err = (struct zc_error){ 0 };
    zc_run_options_init(options);
    options->strategy = strategy;
    strcpy(options->peer, "self");
    if (given_option == NULL)
        return zc_run_options_check(options, 0, err);
    assert_int_equal(zc_option_parse(option(given_option), value, options, err), 0);
    return zc_run_options_check(options, bit(given_option), err);
}

/* Every option of some strategies only is refused, by name, by every other strategy. */
static void test_options_that_are_not_taken(void **state)
{
    size_t count;
    const struct zc_option *table = zc_options(&count);
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (int strategy = 0; strategy < ZC_STRATEGY_COUNT; strategy++) {
            if (table[i].strategies == ZC_ALL_STRATEGIES)
                continue;
            int rc = check(strategy, table[i].name, table[i].default_text, &options, &err);
            if (zc_option_taken(&table[i], strategy)) {
                assert_true(rc == 0 || strcmp(err.field, table[i].name) != 0);
                continue;
            }
            assert_true(rc < 0);
            assert_string_equal(err.field, table[i].name);
            assert_non_null(strstr(err.message, zc_strategy_names[strategy]));
        }
}

static void test_defaults_by_strategy(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    assert_int_equal(check(ZC_PIPELINE_BLOCKING, NULL, NULL, &options, &err), 0);
    assert_int_equal(options.chunk_size_bytes, 2 << 20);
    assert_int_equal(check(ZC_IDEAL_BLOCKING, "skip_validation", NULL, &options, &err), 0);
    assert_int_equal(options.chunk_size_bytes, 512 << 10);
    options.chunk_size_bytes = 4096;
    assert_int_equal(zc_run_options_check(&options, bit("chunk_size") | bit("skip_validation"), &err), 0);
    assert_int_equal(options.chunk_size_bytes, 4096);
}

static void test_ideal_wants_a_word_about_validation(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    assert_true(check(ZC_IDEAL_BLOCKING, NULL, NULL, &options, &err) < 0);
    assert_string_equal(err.field, "skip_validation");
    assert_non_null(strstr(err.message, "skip_validation"));
    assert_non_null(strstr(err.message, "validate first or all"));
    assert_int_equal(check(ZC_IDEAL_BLOCKING, "skip_validation", NULL, &options, &err), 0);
    assert_int_equal(check(ZC_IDEAL_BLOCKING, "validate", "first", &options, &err), 0);
    assert_int_equal(options.validate, ZC_VALIDATE_FIRST);
    assert_int_equal(check(ZC_IDEAL_BLOCKING, "validate", "all", &options, &err), 0);
}

static void test_strategies(void **state)
{
    (void)state;
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++) {
        const struct zc_strategy_info *const info = &zc_strategy_infos[i];
        assert_string_equal(info->name, zc_strategy_names[i]);
        assert_int_equal(zc_strategy_find(info->name), i);
        if (info->alias != NULL)
            assert_int_equal(zc_strategy_find(info->alias), i);
        assert_true(strlen(info->shows) > 20 && info->shows[strlen(info->shows) - 1] != '.');
        assert_non_null(zc_memory_names[info->memory]);
        assert_non_null(zc_execution_names[info->execution]);
        assert_non_null(zc_chunking_names[info->chunking]);
        assert_true(zc_option_taken(option("mr_size"), i) == (info->chunking == ZC_CHUNK_MR_SIZE || info->memory == ZC_MEMORY_HYBRID));
        assert_true(zc_option_taken(option("chunk_size"), i) == (info->chunking == ZC_CHUNK_CHUNK_SIZE));
    }
    assert_null(zc_strategy_names[ZC_STRATEGY_COUNT]);
    assert_int_equal(zc_strategy_find("blocking-ideal"), ZC_IDEAL_BLOCKING);
    assert_int_equal(zc_strategy_find("ideal"), -1);
}

static void test_peer_split(void **state)
{
    static const struct { const char *peer, *host; int port; } good[] = {
        { "self", "self", 0 }, { "host", "host", 0 }, { "host:1", "host", 1 }, { "host.example.org:65535", "host.example.org", 65535 },
        { "10.9.0.1:17471", "10.9.0.1", 17471 }, { "::1", "::1", 0 }, { "[::1]", "::1", 0 }, { "[::1]:5", "::1", 5 },
        { "fe80::1%eth0", "fe80::1%eth0", 0 }, { "[fe80::1%eth0]:80", "fe80::1%eth0", 80 },
        { "::ffff:10.9.0.1", "::ffff:10.9.0.1", 0 },
    };
    static const char *const bad[] = {
        "", ":", ":1", "host:", "host:0", "host:65536", "host:-1", "host:1x", "host:99999999999", "host:1:2", "[::1", "[::1]x", "[]:1",
        "[host]:1", "[::1]:", "a b", "host/1", "-host", "host\n", "::zz", "::1%", "1:2:3",
    };
    char host[ZC_PEER_MAX];
    struct zc_error err;
    uint16_t port;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(zc_peer_split(good[i].peer, host, &port, &err), 0);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(host, "untouched");
        port = 7;
        err = (struct zc_error){ 0 };
        assert_int_equal(zc_peer_split(bad[i], host, &port, &err), -EINVAL);
        assert_string_equal(host, "untouched");
        assert_int_equal(port, 7);
        assert_string_equal(err.field, "peer");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_size_parse),
        cmocka_unit_test(test_size_format),
        cmocka_unit_test(test_errors_name_field_value_and_limit),
        cmocka_unit_test(test_long_values),
        cmocka_unit_test(test_typed_values),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_options_that_are_not_taken),
        cmocka_unit_test(test_defaults_by_strategy),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_ideal_wants_a_word_about_validation),
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_peer_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
