/* The tables against what a person should read: figures, "-" for what was not measured (never 0.00), at most 100 columns. */
#include "../proto/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "probe_json.h"
#include "result_json.h"

static void fill_measured(struct zc_result *r)
{
    struct zc_latency latency = { .count = 9876, .min_ns = 160400, .p50_ns = 171234, .p90_ns = 180000, .p95_ns = 190000,
                                  .p99_ns = 250000, .p99_9_ns = 1230000, .p99_99_ns = ZC_UNMEASURED, .max_ns = 12300000,
                                  .mean_ns = 172345.6 };

    r->available = r->reclaimed = latency;
    r->throughput = (struct zc_throughput){ .measured = true, .bytes = UINT64_C(5583) << 20, .requests = 5583,
                                            .duration_ns = 1000400000, .series_length = 11 };
    r->throughput.series_bytes = calloc(11, sizeof(uint64_t));
    for (uint64_t i = 0; i < 11; i++)
        r->throughput.series_bytes[i] = i == 10 ? 1 : (550 + i) << 20;
    r->cost = (struct zc_cost){ .measured = true, .bytes = UINT64_C(1) << 30, .requests = 1024, .duration_ns = 1000000000,
                                .cpu_user_ns = 210000000, .cpu_system_ns = 102000000, .device_cpu_ns = 201000000,
                                .registrations = 0, .allocations = 0, .cache_hits = ZC_UNMEASURED, .cache_misses = ZC_UNMEASURED,
                                .cache_evictions = ZC_UNMEASURED };
    r->phases = (struct zc_phases){ .requests = 200, .register_ns = NAN, .post_ns = 850, .wait_ns = 130000, .copy_ns = 41200,
                                    .deregister_ns = NAN, .discard_ns = NAN, .consume_ns = NAN };
    r->validation = (struct zc_validation){ .mode = ZC_VALIDATE_FIRST, .requests = 1, .bytes = 1 << 20 };
}

static void fill(struct zc_result *r)
{
    struct zc_device_info *device = &r->environment.device;

    zc_result_init(r);
    strcpy(r->id, "20231114T221320-copy_blocking-1a2b");
    r->config.strategy = ZC_COPY_BLOCKING;
    strcpy(r->config.peer, "self");
    strcpy(r->peer.host, "self");
    strcpy(r->peer.address, "10.9.0.1");
    r->peer.port = 17471;
    r->started_unix_ns = INT64_C(1700000000123456789);
    r->finished_unix_ns = INT64_C(1700000010500000000);
    strcpy(r->environment.host, "node1");
    strcpy(r->environment.kernel, "Linux 6.1.0-28-amd64");
    strcpy(r->environment.cpu, "Some CPU");
    r->environment.cpus_online = 2;
    r->environment.numa_nodes = 1;
    r->environment.memory_bytes = UINT64_C(8) << 30;
    r->environment.llc_bytes = 32 << 20;
    strcpy(device->name, "zcsoft0");
    strcpy(device->port_state, "ACTIVE");
    strcpy(device->link_layer, "Ethernet");
    device->kind = ZC_DEVICE_SOFTWARE;
    device->port = 1;
    device->active_mtu = device->max_mtu = 4096;
    device->max_qp = 256;
    device->max_qp_wr = device->max_cqe = 4096;
    device->max_sge = 4;
    device->max_qp_rd_atom = device->max_qp_init_rd_atom = 16;
    device->max_mr_size_bytes = UINT64_MAX;
    device->max_msg_size_bytes = UINT64_C(1) << 31;
}

static void fill_terms(struct zc_terms *t)
{
    *t = (struct zc_terms){ .inflight = 1, .footprint_bytes = 256 << 20, .buffers = 256, .page_bytes = 4096, .huge_page_bytes = 128 << 20,
                            .chunk_bytes = 256 << 10, .chunks = 4, .staging_bytes = 2 << 20, .staging_slots = 8, .post = ZC_FAMILY_EXTENDED, .qps = 1,
                            .outstanding_reads = 16, .max_read_bytes = (UINT64_C(1) << 31) - 1, .memory_numa_node = 0, .thread_numa_node = 0, .relaxed_ordering = 1,
                            .placement = "threads and memory on NUMA node 0, the only one" };
}

static char *render(void (*print)(FILE *, json_t *), json_t *json)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(json);
    print(out, json);
    fclose(out);
    json_decref(json);
    return text;
}

static void assert_fits(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        assert_true(length <= 100);
        text += length + 1;
    }
}

static char *read_golden(const char *name)
{
    char path[512], *text = calloc(1, 16384);
    FILE *file;

    assert_non_null(text);
    snprintf(path, sizeof(path), "%s/tests/unit/ctl/golden/%s.txt", ZC_SOURCE_DIR, name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, 16383, file) > 0);
    fclose(file);
    return text;
}

/* The rendered text is golden/NAME.txt. json is stolen. */
static void expect(void (*print)(FILE *, json_t *), json_t *json, const char *name)
{
    char *text = render(print, json), *golden = read_golden(name), path[512];

    if (strcmp(text, golden) != 0) {    /* to be looked at, and copied if it is right */
        FILE *file;
        snprintf(path, sizeof(path), "%s/%s.txt", ZC_BUILD_DIR, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
        fail_msg("differs from golden/%s.txt: see %s", name, path);
    }
    assert_fits(text);
    free(golden);
    free(text);
}

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *json = json_loads(text, 0, &why);

    assert_non_null(json);
    return json;
}

static void test_full_result(void **state)
{
    struct zc_result result;

    (void)state;
    fill(&result);
    fill_measured(&result);
    fill_terms(&result.terms);
    result.config.buffers = ZC_BUFFERS_FRESH;
    result.config.consume = true;
    result.phases.discard_ns = 12000;
    result.phases.consume_ns = 31000;
    expect(output_text.result, zc_result_to_json(&result), "result-full");
    zc_result_destroy(&result);
}

static json_t *one_of_several(int strategy, uint64_t bytes, uint64_t registrations)
{
    struct zc_result result;
    json_t *document;

    fill(&result);
    fill_measured(&result);
    result.config.strategy = strategy;
    result.throughput.bytes = bytes;
    result.cost.registrations = registrations;
    if (bytes == 0) {
        result.state = ZC_RUN_FAILED;
        zc_error_set(&result.error, ZC_ERR_PEER, -ENOTCONN, NULL, "the peer is gone");
        result.throughput.measured = false;
        result.available.count = result.reclaimed.count = 0;
        result.cost.registrations = ZC_UNMEASURED;
        result.cost.measured = false;
    }
    document = zc_result_to_json(&result);
    zc_result_destroy(&result);
    return document;
}

static void test_comparison(void **state)
{
    json_t *documents = json_array();

    (void)state;
    json_array_append_new(documents, one_of_several(ZC_COPY_BLOCKING, UINT64_C(5) << 30, 0));
    json_array_append_new(documents, one_of_several(ZC_NAIVE_BLOCKING, UINT64_C(1) << 30, 1024));
    json_array_append_new(documents, one_of_several(ZC_PIPELINE_BLOCKING, 0, 0));
    json_array_append_new(documents, one_of_several(ZC_IDEAL_BLOCKING, UINT64_C(8) << 30, 0));
    expect(output_text.comparison, documents, "comparison");
}

static void test_hardware_result(void **state)
{
    struct zc_result result;

    (void)state;
    fill(&result);
    fill_measured(&result);
    fill_terms(&result.terms);
    strcpy(result.environment.device.name, "mlx5_0");
    result.environment.device.kind = ZC_DEVICE_HARDWARE;
    result.environment.device.rate_gbit_per_s = 100;
    result.cost.device_cpu_ns = ZC_UNMEASURED;
    result.cost.cache_hits = 990;
    result.cost.cache_misses = 10;
    result.cost.cache_evictions = 1;
    result.config.skip_latency = result.config.skip_validation = true;
    result.available.count = result.reclaimed.count = 0;
    result.validation = (struct zc_validation){ .mode = ZC_VALIDATE_NONE };
    expect(output_text.result, zc_result_to_json(&result), "result-hardware");
    zc_result_destroy(&result);
}

/* Nothing was measured: not a single zero that looks like a figure. */
static void test_failed_result(void **state)
{
    struct zc_result result;
    char *text;

    (void)state;
    fill(&result);
    result.state = ZC_RUN_FAILED;
    zc_error_set(&result.error, ZC_ERR_PEER, 0, "peer", "peer: nobody listens on \x1b[31m10.9.0.1 port 17471; a long reason that "
                 "needs more than one line of the table to be read in full");
    text = render(output_text.result, zc_result_to_json(&result));
    assert_null(strstr(text, "0.0"));
    assert_null(strchr(text, '\x1b'));
    free(text);
    expect(output_text.result, zc_result_to_json(&result), "result-failed");
    zc_result_destroy(&result);
}

static void test_bad_validation(void **state)
{
    struct zc_result result;
    char *text;

    (void)state;
    fill(&result);
    result.state = ZC_RUN_FAILED;
    result.validation = (struct zc_validation){ .mode = ZC_VALIDATE_ALL, .failed = true, .requests = 3, .first_bad_offset = 4096,
                                                .expected = 0x0f, .found = 0xff };
    text = render(output_text.result, zc_result_to_json(&result));
    assert_non_null(strstr(text, "FAILED at offset 4096 of the peer's region: expected 0x0f, found 0xff"));
    free(text);
    zc_result_destroy(&result);
}

static void test_lists(void **state)
{
    (void)state;
    expect(output_text.results, parse(
        "{\"results\":[{\"id\":\"20231114T221320-copy_blocking-1a2b\",\"state\":\"done\",\"strategy\":\"copy_blocking\",\"peer\":\"self\","
        "\"size\":1048576,\"started_at\":\"2023-11-14T22:13:20.123Z\",\"gib_per_s\":5.4321,\"p50_ns\":171234,"
        "\"device_kind\":\"software\",\"readable\":true},"
        "{\"id\":\"20231114T221321-copy_blocking-0000\",\"state\":\"failed\",\"strategy\":\"copy_blocking\",\"peer\":\"h\","
        "\"size\":100,\"started_at\":null,\"gib_per_s\":null,\"p50_ns\":null,\"device_kind\":null,\"readable\":true},"
        "{\"id\":\"broken\",\"readable\":false,\"error\":\"not JSON\"}]}"), "results");
    expect(output_text.results, parse("{\"results\":[]}"), "results-none");
    expect(output_text.runs, parse(
        "{\"runs\":[{\"id\":\"20231114T221320-copy_blocking-1a2b\",\"strategy\":\"copy_blocking\",\"peer\":\"self\",\"size\":65536,"
        "\"state\":\"active\",\"phase\":\"throughput\",\"elapsed_s\":3.21,\"total_s\":24},"
        "{\"id\":\"x\",\"strategy\":\"copy_blocking\",\"peer\":\"self\",\"size\":65536,\"state\":\"queued\",\"phase\":\"queued\","
        "\"elapsed_s\":null,\"total_s\":null}]}"), "runs");
    expect(output_text.sessions, parse(
        "{\"sessions\":[{\"id\":12,\"peer\":\"10.9.0.1:40000\",\"qps\":1,\"welcomed\":true,\"age_s\":3725.5,\"outstanding_reads\":16},"
        "{\"id\":13,\"peer\":\"[fe80::1]:40001\",\"qps\":4,\"welcomed\":false,\"age_s\":0.2,\"outstanding_reads\":1}]}"), "sessions");
}

static void test_stats(void **state)
{
    (void)state;
    expect(output_text.stats, parse(
        "{\"uptime_s\":93784,\"sessions\":{\"open\":1,\"total\":20,\"refused\":2,\"ended\":{\"bye\":17,\"disconnected\":1,\"error\":1,"
        "\"timeout\":0,\"idle\":0,\"unreachable\":2,\"closed\":0}},\"objects\":{\"pds\":1,\"mrs\":1,\"mr_bytes\":268435456,\"mws\":3,\"cqs\":1,\"channels\":1,\"qps\":1,"
        "\"srqs\":1,\"cm_ids\":2},\"runs\":{\"active\":0,\"queued\":0,\"done\":3,\"failed\":1,\"cancelled\":1},"
        "\"results\":{\"stored\":5},\"clients\":1,\"process\":{\"rss_bytes\":300000000,\"fds\":21,\"threads\":3},"
        "\"device\":\"zcsoft0\",\"device_present\":true,\"port\":{\"state\":\"ACTIVE\"},\"region\":{\"size_bytes\":268435456},"
        "\"listen\":{\"address\":\"10.9.0.1\",\"port\":17471}}"), "stats");
    char *text = render(output_text.stats, parse("{\"device\":\"rxe0\",\"device_present\":false}"));
    assert_non_null(strstr(text, "device     rxe0 was REMOVED: nothing is served until it is back\n"));
    free(text);
    expect(output_text.version, parse("{\"zcctl\":\"0.1.0\",\"zcrdmad\":{\"version\":\"0.1.0\",\"control_protocol\":\"2.0\","
                                      "\"peer_protocol\":1,\"result_schema\":1}}"), "version");
}

static void test_devices(void **state)
{
    struct zc_result result;
    json_t *device;

    (void)state;
    fill(&result);
    strcpy(result.environment.device.address, "10.9.0.1");
    device = zc_device_info_to_json(&result.environment.device);
    json_object_set_new(device, "in_use", json_true());
    expect(output_text.devices, json_pack("{s:[o]}", "devices", device), "devices");
    zc_result_destroy(&result);
}

static void test_doctor(void **state)
{
    (void)state;
    expect(output_text.doctor, parse(
        "{\"device\":\"mlx5_0\",\"peer\":null,\"findings\":["
        "{\"id\":\"port\",\"what\":\"the state of its port\",\"level\":\"ok\",\"finding\":\"port 1 of mlx5_0 is ACTIVE\",\"fix\":null},"
        "{\"id\":\"memlock\",\"what\":\"memory that may be locked\",\"level\":\"bad\",\"finding\":\"RLIMIT_MEMLOCK of zcrdmad is 8 MiB, "
        "its region takes 16: runs that register more than 0 MiB fail\",\"fix\":\"LimitMEMLOCK=infinity in zcrdmad.service, or `ulimit -l "
        "unlimited` before starting it\"},"
        "{\"id\":\"relaxed_ordering\",\"what\":\"w\",\"level\":\"unknown\",\"finding\":\"a \\u001b[31mred\\u001b[0m word\",\"fix\":null}]}"),
        "doctor");
}

static void probe_row(struct zc_probe *probe, struct zc_probe_case is, double time_s, const char *why)
{
    struct zc_probe_row *row = zc_probe_add(probe, &is);
    double trials_s[9];

    for (int i = 0; i < 9; i++)
        trials_s[i] = time_s * (0.96 + 0.01 * i);
    if (why == NULL)
        zc_probe_set(row, trials_s, 9);
    else
        strcpy(row->why, why);
}

static void fill_probe(struct zc_probe *probe)
{
    const char *none = "2 MiB need 1 pages of 2 MiB and 0 are free: reserve more with /proc/sys/vm/nr_hugepages";

    zc_probe_init(probe);
    strcpy(probe->id, "20231114T221320Z-probe-1a2b");
    strcpy(probe->asked_peer, "self");
    strcpy(probe->environment.device.name, "mlx5_0");
    probe->environment.page_size_bytes = 4096;
    probe->state = ZC_RUN_DONE;
    for (uint64_t size = 4096; size <= 16 << 20; size *= 64) {
        probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_REGISTER, .size_bytes = size, .threads = 1 }, 3e-6 + (double)size * 2e-11, NULL);
        probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_DEREGISTER, .size_bytes = size, .threads = 1 }, 1e-6, NULL);
    }
    for (enum zc_probe_what what = ZC_PROBE_REGISTER; what <= ZC_PROBE_DEREGISTER; what++)
        probe_row(probe, (struct zc_probe_case){ .what = what, .size_bytes = 65536, .pages = ZC_PAGES_2M, .cold = true, .threads = 2 }, 0, none);
    for (uint64_t size = 4096; size <= 16 << 20; size *= 64)
        probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_COPY, .size_bytes = size, .threads = 1 }, (double)size / 8e9, NULL);
    probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_READ, .size_bytes = 8, .threads = 1, .inflight = 1 }, 2.2e-6, NULL);
    probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_READ, .size_bytes = 1 << 20, .threads = 1, .inflight = 1 }, 90e-6, NULL);
    probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_READ, .size_bytes = 1 << 20, .threads = 1, .inflight = 16 }, 85e-6, NULL);
    probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_READ, .size_bytes = 8, .threads = 1, .inflight = 1, .event = true }, 6e-6, NULL);
    probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_QP_CREATE, .threads = 1 }, 210e-6, NULL);
    probe_row(probe, (struct zc_probe_case){ .what = ZC_PROBE_CONNECT, .threads = 1 }, 0, "peer there:17471 refused: too many sessions");
    zc_probe_fit_make(probe);
}

static void test_probe(void **state)
{
    static struct zc_probe probe;

    (void)state;
    fill_probe(&probe);
    expect(output_text.result, zc_probe_to_json(&probe), "probe");
}

static void test_json_form(void **state)
{
    struct zc_result result;
    json_t *doc, *again;
    char *text;

    (void)state;
    fill(&result);
    fill_measured(&result);
    doc = zc_result_to_json(&result);
    text = render(output_json.result, json_incref(doc));
    again = parse(text);
    assert_true(json_object_size(again) == json_object_size(doc));
    assert_true(json_equal(json_object_get(again, "config"), json_object_get(doc, "config")));
    json_decref(again);
    json_decref(doc);
    free(text);
    zc_result_destroy(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_result),
        cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_hardware_result),
        cmocka_unit_test(test_failed_result),
        cmocka_unit_test(test_bad_validation),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_doctor),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_json_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
