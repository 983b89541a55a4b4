/* Result documents: a fresh one says null everywhere, a full one every figure, and all validate against the strict schema. */
#include "valid.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_json.h"
#include "result_json.h"
#include "zc_json.h"

static const json_t *at(const json_t *json, const char *path)
{
    char name[64];

    while (*path != '\0') {
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        json = json_object_get(json, name);
        assert_non_null(json);
        path += length + (path[length] == '.');
    }
    return json;
}

static void assert_integer(const json_t *doc, const char *path, int64_t expected)
{
    assert_true(json_is_integer(at(doc, path)));
    assert_int_equal(json_integer_value(at(doc, path)), expected);
}

static void assert_close(const json_t *doc, const char *path, double expected)
{
    assert_true(json_is_number(at(doc, path)));
    assert_true(fabs(json_number_value(at(doc, path)) - expected) <= 1e-9 * fabs(expected));
}

static void assert_text(const json_t *doc, const char *path, const char *expected)
{
    assert_string_equal(json_string_value(at(doc, path)), expected);
}

/* Every number in the object, but for a few, is null. */
static void assert_all_null(const json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)object, name, value) {
        if (json_is_object(value))
            assert_all_null(value);
        else
            assert_true(json_is_null(value));
    }
}

static void test_fresh(void **state)
{
    struct zc_result result;
    json_t *doc;

    (void)state;
    zc_result_init(&result);
    doc = zc_result_to_json(&result);
    assert_non_null(doc);
    assert_all_null(at(doc, "latency"));
    assert_all_null(at(doc, "throughput"));
    assert_all_null(at(doc, "cost"));
    assert_all_null(at(doc, "phases"));
    assert_all_null(at(doc, "terms"));
    assert_all_null(at(doc, "environment"));
    assert_all_null(at(doc, "peer"));
    assert_true(json_is_null(at(doc, "error")));
    assert_true(json_is_null(at(doc, "notice")));
    assert_true(json_is_null(at(doc, "started_at")));
    assert_true(json_is_null(at(doc, "validation.state")));
    assert_integer(doc, "config.size", 1 << 20);
    assert_valid(doc, "result", "--strict", "fresh");
    json_decref(doc);
    zc_result_destroy(&result);
}

static void fill_device(struct zc_device_info *device)
{
    strcpy(device->name, "mlx5_0");
    strcpy(device->firmware, "20.31.1014");
    strcpy(device->port_state, "ACTIVE");
    strcpy(device->link_layer, "Ethernet");
    strcpy(device->netdev, "eth0");
    strcpy(device->address, "10.9.0.1");
    device->kind = ZC_DEVICE_HARDWARE;
    device->port = 1;
    device->vendor_id = 0x2c9;
    device->active_mtu = device->max_mtu = 4096;
    device->rate_gbit_per_s = 100;
    device->numa_node = 0;
    device->max_qp = 131072;
    device->max_mr_size_bytes = UINT64_MAX;     /* what mlx5 says */
    device->max_msg_size_bytes = UINT64_C(1) << 30;
    device->odp = true;
}

static void fill(struct zc_result *result)
{
    zc_result_init(result);
    strcpy(result->id, "20261129T192210-1a2b");
    result->config.strategy = ZC_COPY_BLOCKING;
    strcpy(result->config.peer, "host:17471");
    strcpy(result->peer.host, "host");
    strcpy(result->peer.address, "10.9.0.2");
    result->peer.port = 17471;
    result->peer.region_bytes = UINT64_C(1) << 30;
    result->started_unix_ns = INT64_C(1700000000123456789);
    result->finished_unix_ns = INT64_C(1700000010000000000);
    strcpy(result->environment.host, "me\xff");     /* not UTF-8 */
    result->environment.cpus_online = 2;
    result->environment.memlock_limit_bytes = 65536;
    result->environment.llc_bytes = 32 << 20;
    fill_device(&result->environment.device);
    result->terms.inflight = 1;
    result->terms.staging_slots = 0;
    result->available = (struct zc_latency){ .count = 2000, .min_ns = 1, .p50_ns = 2, .p90_ns = 3, .p95_ns = 4, .p99_ns = 5,
                                             .p99_9_ns = ZC_UNMEASURED, .p99_99_ns = ZC_UNMEASURED, .max_ns = 9, .mean_ns = 2.5 };
    result->reclaimed = result->available;
    result->throughput = (struct zc_throughput){ .measured = true, .bytes = UINT64_C(3) << 30, .requests = 3072,
                                                 .duration_ns = 2000000000, .series_length = 20 };
    result->throughput.series_bytes = calloc(20, sizeof(uint64_t));
    result->throughput.series_bytes[19] = UINT64_C(1) << 40;
    result->cost = (struct zc_cost){ .measured = true, .bytes = UINT64_C(2) << 30, .requests = 2048, .duration_ns = 1000000000,
                                     .cpu_user_ns = 300000000, .cpu_system_ns = 100000000, .device_cpu_ns = ZC_UNMEASURED,
                                     .registrations = 0, .allocations = 0 };
    result->phases = (struct zc_phases){ .requests = 100, .register_ns = NAN, .post_ns = 100.5, .wait_ns = 1e6, .copy_ns = 2e5,
                                         .deregister_ns = NAN };
    result->validation = (struct zc_validation){ .mode = ZC_VALIDATE_FIRST, .requests = 1, .bytes = 1 << 20,
                                                 .first_bad_offset = ZC_UNMEASURED };
}

static void test_full(void **state)
{
    struct zc_result result;
    json_t *doc;

    (void)state;
    fill(&result);
    doc = zc_result_to_json(&result);
    assert_text(doc, "started_at", "2023-11-14T22:13:20.123Z");
    assert_text(doc, "environment.host", "me?");
    assert_integer(doc, "environment.limits.memlock_bytes", 65536);
    assert_true(json_is_null(at(doc, "environment.device.max_mr_size_bytes")));
    assert_close(doc, "throughput.gib_per_s", 1.5);
    assert_close(doc, "throughput.requests_per_s", 1536);
    assert_int_equal(json_array_size(at(doc, "throughput.series")), 20);
    assert_close(doc, "cost.cpu_s_per_gib", 0.2);
    assert_true(json_is_null(at(doc, "cost.device_cpu_s_per_gib")));
    assert_integer(doc, "cost.allocations", 0);
    assert_integer(doc, "latency.available.p99_ns", 5);
    assert_true(json_is_null(at(doc, "latency.available.p99_9_ns")));
    assert_true(json_is_null(at(doc, "phases.register_ns")));
    assert_text(doc, "validation.state", "passed");
    assert_true(json_is_null(at(doc, "notice")));
    assert_integer(doc, "terms.staging_slots", 0);
    assert_valid(doc, "result", "--strict", "full");
    json_decref(doc);
    zc_result_destroy(&result);
    assert_null(result.throughput.series_bytes);
}

static void test_failed_on_the_software_device(void **state)
{
    struct zc_result result;
    json_t *doc;

    (void)state;
    fill(&result);
    result.state = ZC_RUN_FAILED;
    zc_error_set(&result.error, ZC_ERR_VALIDATION, -EBADMSG, NULL, "wrong byte at offset 7");
    result.environment.device.kind = ZC_DEVICE_SOFTWARE;
    result.environment.device.rate_gbit_per_s = INFINITY;
    result.cost.device_cpu_ns = 1000000000;
    result.throughput.duration_ns = 0;
    result.throughput.requests = 0;
    result.validation.failed = true;
    result.validation.first_bad_offset = 7;
    result.validation.expected = 0xff;
    doc = zc_result_to_json(&result);
    assert_text(doc, "state", "failed");
    assert_text(doc, "error.kind", "validation");
    assert_text(doc, "error.errno", "EBADMSG");
    assert_true(json_is_null(at(doc, "error.field")));
    assert_true(json_is_string(at(doc, "notice")));
    assert_true(json_is_null(at(doc, "throughput.gib_per_s")));     /* not a division by zero */
    assert_close(doc, "cost.device_cpu_s_per_gib", 0.5);
    assert_integer(doc, "validation.first_bad_offset", 7);
    assert_integer(doc, "validation.expected", 255);
    assert_integer(doc, "validation.found", 0);
    assert_valid(doc, "result", "--strict", "failed");
    json_decref(doc);
    zc_result_destroy(&result);
}

static void test_cancelled_and_skipped(void **state)
{
    struct zc_result result;
    json_t *doc;

    (void)state;
    fill(&result);
    result.state = ZC_RUN_CANCELLED;
    zc_error_set(&result.error, ZC_ERR_CANCELLED, 0, NULL, "cancelled");
    result.validation = (struct zc_validation){ .mode = ZC_VALIDATE_NONE };
    result.throughput.measured = false;
    result.cost.measured = false;
    result.phases.requests = 0;
    result.available.count = 0;
    doc = zc_result_to_json(&result);
    assert_text(doc, "validation.state", "skipped");
    assert_true(json_is_null(at(doc, "error.errno")));
    assert_all_null(at(doc, "throughput"));
    assert_all_null(at(doc, "phases"));
    assert_all_null(at(doc, "latency.available"));
    assert_true(json_is_null(at(doc, "cost.cpu_s_per_gib")));
    assert_valid(doc, "result", "--strict", "cancelled");
    json_decref(doc);
    zc_result_destroy(&result);
}

/* The echo of the configuration can be given to run.start again. */
static void test_config_runs_again(void **state)
{
    struct zc_result result;
    struct zc_run_options again;
    struct zc_error err;
    json_t *doc;

    (void)state;
    fill(&result);
    doc = zc_result_to_json(&result);
    assert_int_equal(zc_run_options_from_json(at(doc, "config"), &again, &err), 0);
    assert_memory_equal(&again, &result.config, sizeof(again));
    json_decref(doc);
    zc_result_destroy(&result);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(zc_run_state_names[ZC_RUN_CANCELLED], "cancelled");
    assert_string_equal(zc_device_kind_names[ZC_DEVICE_SOFTWARE], "software");
    for (int phase = ZC_PHASE_QUEUED; phase <= ZC_PHASE_END; phase++)
        assert_non_null(zc_phase_names[phase]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_failed_on_the_software_device),
        cmocka_unit_test(test_cancelled_and_skipped),
        cmocka_unit_test(test_config_runs_again),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
