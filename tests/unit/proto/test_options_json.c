/* Options to JSON and back; what is refused, and in which words. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "options_json.h"

static void full_options(struct zc_run_options *options)
{
    zc_run_options_init(options);
    options->strategy = ZC_COPY_BLOCKING;
    strcpy(options->peer, "[fe80::1%eth0]:17471");
    options->size_bytes = UINT64_C(1) << 40;
    options->warmup_s = 0;
    options->measure_s = 0.1;
    options->skip_latency = true;
    options->memory_max_bytes = 12345678901;
    options->operations_max = 1;
    options->mr_size_bytes = 4095;
    options->validate = ZC_VALIDATE_ALL;
    options->wait = ZC_WAIT_EVENT;
    options->offset = ZC_OFFSET_FIXED;
    options->footprint_bytes = 1;
}

static void test_round_trip(void **state)
{
    struct zc_run_options options, decoded;
    struct zc_error err;
    size_t count;
    json_t *json;

    (void)state;
    full_options(&options);
    json = zc_run_options_to_json(&options);
    zc_options(&count);
    assert_int_equal(json_object_size(json), count);
    assert_int_equal(zc_run_options_from_json(json, &decoded, &err), 0);
    assert_memory_equal(&options, &decoded, sizeof(options));
    json_decref(json);
}

static void test_only_given(void **state)
{
    struct zc_run_options options;
    size_t count;
    const struct zc_option *table = zc_options(&count);
    uint64_t given = 0;
    json_t *json;

    (void)state;
    full_options(&options);
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, "size") == 0 || strcmp(table[i].name, "wait") == 0)
            given |= UINT64_C(1) << i;
    json = zc_run_options_to_json_given(&options, given);
    assert_int_equal(json_object_size(json), 2);
    assert_string_equal(json_string_value(json_object_get(json, "wait")), "event");
    json_decref(json);
}

static int decode(const char *text, struct zc_run_options *options, struct zc_error *err);

/* "sweep:ID" travels as it was given until the size is known; then it is the size. */
static void test_threshold_of_a_sweep(void **state)
{
    struct zc_run_options options, again;
    struct zc_error err;
    json_t *json;

    (void)state;
    assert_int_equal(decode("{\"strategy\":\"hybrid_async\",\"peer\":\"self\",\"threshold\":\"sweep:20261129T202735Z-sweep-4f79\"}", &options,
                            &err), 0);
    assert_string_equal(options.threshold_sweep, "20261129T202735Z-sweep-4f79");
    assert_int_equal(options.threshold_bytes, 0);
    json = zc_run_options_to_json(&options);
    assert_string_equal(json_string_value(json_object_get(json, "threshold")), "sweep:20261129T202735Z-sweep-4f79");
    assert_int_equal(zc_run_options_from_json(json, &again, &err), 0);
    assert_memory_equal(&options, &again, sizeof(options));
    json_decref(json);
    options.threshold_bytes = 65536;
    json = zc_run_options_to_json(&options);
    assert_int_equal(json_integer_value(json_object_get(json, "threshold")), 65536);
    json_decref(json);
    assert_int_equal(zc_option_parse(zc_option_find("threshold", 9), "4K", &options, &err), 0);
    assert_string_equal(options.threshold_sweep, "");
}

static int decode(const char *text, struct zc_run_options *options, struct zc_error *err)
{
    json_error_t why;
    json_t *json = json_loads(text, JSON_DECODE_INT_AS_REAL * (strstr(text, "99999999999999999999") != NULL), &why);
    int rc;

    assert_non_null(json);
    rc = zc_run_options_from_json(json, options, err);
    json_decref(json);
    return rc;
}

static void test_spellings(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    assert_int_equal(decode("{\"strategy\":\"copy_blocking\",\"peer\":\"self\",\"size\":\"64K\",\"measure\":2,\"mr_size\":1e3}", &options,
                            &err), 0);
    assert_int_equal(options.size_bytes, 65536);
    assert_int_equal(options.mr_size_bytes, 1000);
    assert_true(options.measure_s == 2);
    assert_int_equal(options.operations_max, 64);
}

static void test_refused(void **state)
{
    static const struct { const char *members, *field, *message; } cases[] = {
        { "\"sise\":1", "sise", "unknown option \"sise\" (did you mean size?)" },
        { "\"mr-size\":1", "mr-size", "unknown option \"mr-size\" (did you mean mr_size?)" },
        { "\"colour\":1", "colour", "unknown option \"colour\"" },
        { "\"size\":true", "size", "size: true is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "\"size\":null", "size", "size: null is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "\"size\":[1]", "size", "size: [1] is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "\"size\":1.5", "size", "size: 1.5 is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "\"size\":0", "size", "size: 0 is below the minimum of 1" },
        { "\"size\":-1", "size", "size: -1 is below the minimum of 1" },
        { "\"size\":1e30", "size", "size: 1e+30 is above the maximum of 1T" },
        { "\"size\":99999999999999999999", "size", "size: 1e+20 is above the maximum of 1T" },
        { "\"size\":\"1e30\"", "size", "size: \"1e30\" is not a size (use for instance 64K, 1M, 1MiB or 1000000)" },
        { "\"threshold\":\"sweep:\"", "threshold", "threshold: \"\" is not the id of a stored sweep (`zcctl results list`)" },
        { "\"threshold\":\"sweep:../x\"", "threshold", "threshold: \"../x\" is not the id of a stored sweep (`zcctl results list`)" },
        { "\"threshold\":\"sweep\"", "threshold", "threshold: \"sweep\" is not a size (use for instance 64K, 1M, 1MiB or 1000000), nor sweep:ID" },
        { "\"operations_max\":\"64\"", "operations_max", "operations_max: \"64\" is not a whole number" },
        { "\"measure\":\"10\"", "measure", "measure: \"10\" is not a number of seconds (use for instance 10 or 0.5)" },
        { "\"measure\":-0.5", "measure", "measure: -0.5 is below the minimum of 0.001" },
        { "\"skip_latency\":1", "skip_latency", "skip_latency: 1 is not true or false" },
        { "\"wait\":7", "wait", "wait: 7 is not text" },
        { "\"peer\":\"a b\"", "peer", "peer: \"a b\" is not a host name or address" },
        { "\"validate\":\"all\",\"skip_validation\":true", "validate",
          "skip_validation and validate all contradict each other: give one of them" },
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zc_run_options options;
        struct zc_error err = { 0 };

        memset(&options, 0x5a, sizeof(options));
        snprintf(text, sizeof(text), "{%s%s}", strstr(cases[i].members, "peer") ? "\"strategy\":\"copy_blocking\"," :
                 "\"strategy\":\"copy_blocking\",\"peer\":\"self\",", cases[i].members);
        assert_true(decode(text, &options, &err) < 0);
        assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.field, cases[i].field);
        assert_int_equal(err.kind, ZC_ERR_INVALID);
        assert_int_equal(options.strategy, 0x5a5a5a5a);
    }
}

static void test_missing(void **state)
{
    struct zc_run_options options;
    struct zc_error err;

    (void)state;
    assert_true(zc_run_options_from_json(NULL, &options, &err) < 0);
    assert_string_equal(err.field, "strategy");
    assert_true(decode("{\"strategy\":\"copy_blocking\"}", &options, &err) < 0);
    assert_string_equal(err.field, "peer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_only_given),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_threshold_of_a_sweep),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
