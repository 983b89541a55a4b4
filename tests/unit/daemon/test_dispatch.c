/* The registry against proto/methods.def, parameters by name, and runs through the control protocol - with a measurement that is
 * the test's own, and no device. */
#include "fixture.h"

#include <stdatomic.h>

#include "clock.h"
#include "cmd.h"
#include "dispatch.h"

static struct daemon daemon_;
static struct peer peer;
static char folder[64];

/* Stands for zc_measure(): runs until it is cancelled or `measure_ms` are over. */
static atomic_int measure_ms, measured;

static int fake_measure(const struct zc_measure_params *params, struct zc_result *result)
{
    uint64_t end_ns = zc_now_ns() + (uint64_t)atomic_load(&measure_ms) * 1000000;
    result->config = params->options;
    atomic_store(&params->progress->phase, ZC_PHASE_LATENCY);
    atomic_store(&params->progress->total_ns, 1000000000);
    params->wake(params->wake_arg);
    while (zc_now_ns() < end_ns && !atomic_load(params->cancel))
        usleep(1000);
    atomic_fetch_add(&measured, 1);
    result->state = atomic_load(params->cancel) ? ZC_RUN_CANCELLED : ZC_RUN_DONE;
    if (result->state == ZC_RUN_CANCELLED)
        return zc_error_set(&result->error, ZC_ERR_CANCELLED, -ECANCELED, NULL, "cancelled");
    if (strcmp(params->host, "10.1.2.3") != 0 || params->port != 4711) {
        result->state = ZC_RUN_FAILED;
        return zc_error_set(&result->error, ZC_ERR_PEER, -ECONNREFUSED, "peer", "refused");
    }
    return 0;
}

static int start(const char *state_dir)
{
    struct zc_error err = { 0 };
    struct control_params control = { .handle = dispatch_call, .arg = &daemon_ };
    struct runs_params runs = { .self = { "10.1.2.3", 4711 }, .measure = fake_measure };
    memset(&daemon_, 0, sizeof daemon_);
    fixture_open();
    daemon_.loop = control.loop = runs.loop = loop;
    daemon_.store = runs.store = store_create(state_dir);
    atomic_store(&measure_ms, 30);
    atomic_store(&measured, 0);
    if (control_create(&control, &daemon_.control, &err) != 0 || runs_create(&runs, &daemon_.runs, &err) != 0
        || worker_create(loop, &daemon_.worker, &err) != 0)
        return -1;
    peer_open(&peer, daemon_.control);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zc-dispatch-XXXXXX");
    return mkdtemp(folder) ? start(folder) : -1;
}

/* Results cannot be stored. */
static int setup_unwritable(void **state)
{
    (void)state;
    char path[80];
    snprintf(folder, sizeof folder, "/tmp/zc-dispatch-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    fclose(fopen(path, "w"));
    return start(path);
}

static bool stopped;
static void on_stopped(void *arg)
{
    stopped = true;
    loop_stop(arg);
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    stopped = false;
    runs_stop(daemon_.runs, on_stopped, loop);
    if (!stopped)
        loop_run(loop);
    close(peer.fd);
    runs_destroy(daemon_.runs);
    worker_destroy(daemon_.worker);
    control_destroy(daemon_.control);
    store_destroy(daemon_.store);
    fixture_close();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void send_request(const char *method, const char *params)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}\n", method, params);
    peer_send(&peer, text);
}

/* The next message that is no notification, within a few seconds. */
static json_t *reply(int *notifications)
{
    for (int i = 0; i < 500; i++) {
        json_t *message;
        while ((message = peer_receive(&peer))) {
            if (!json_object_get(message, "method"))
                return message;
            *notifications += 1;
            json_decref(message);
        }
        turn(0.01);
    }
    fail_msg("no reply");
    return NULL;
}

static json_t *call(const char *method, const char *params)
{
    int ignored = 0;
    send_request(method, params);
    return reply(&ignored);
}

static json_t *result(const char *method, const char *params)
{
    json_t *message = call(method, params), *found = json_object_get(message, "result");
    if (!found)
        fail_msg("%s: %s", method, json_dumps(message, 0));
    json_incref(found);
    json_decref(message);
    return found;
}

static void expect_error(const char *method, const char *params, json_int_t code, const char *field)
{
    json_t *message = call(method, params);
    assert_int_equal(error_code(message), code);
    if (strcmp(error_field(message), field) != 0)
        fail_msg("%s %s: field '%s', not '%s'", method, params, error_field(message), field);
    json_decref(message);
}

/* Every row has a handler, or this would not link; every row is found and knows its parameters. */
static void test_every_method(void **state)
{
    (void)state;
    static const struct { const char *name, *params; cmd_handler *handler; } rows[] = {
#define ZC_METHOD(name, handler, access, params, help) { name, params, cmd_##handler },
#include "methods.def"
#undef ZC_METHOD
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_non_null(rows[i].handler);
        json_t *message = call(rows[i].name, "{\"id\":1,\"no_such_thing\":1}");
        assert_int_equal(error_code(message), ZC_RPC_PARAMS);
        json_decref(message);
    }
}

static void test_names(void **state)
{
    (void)state;
    expect_error("no.such", "{}", ZC_RPC_METHOD, "method");
    expect_error("", "{}", ZC_RPC_METHOD, "method");
    expect_error("version", "{\"id\":1}", ZC_RPC_PARAMS, "id");
    expect_error("result.get", "{}", ZC_RPC_PARAMS, "id");
    expect_error("result.get", "{\"id\":\"x\",\"ID\":1}", ZC_RPC_PARAMS, "ID");
    expect_error("result.get", "{\"id\":7}", ZC_RPC_PARAMS, "id");
    expect_error("result.get", "{\"id\":\"../../etc/passwd\"}", ZC_RPC_PARAMS, "id");
    expect_error("result.delete", "{\"id\":\"..\"}", ZC_RPC_PARAMS, "id");
    expect_error("result.get", "{\"id\":\"20261129T190102Z-copy_blocking-3f9a\"}", ZC_RPC_NOT_FOUND, "id");
    expect_error("run.wait", "{\"id\":\"x\"}", ZC_RPC_PARAMS, "id");
    expect_error("run.wait", "{\"id\":\"x\",\"progress\":1}", ZC_RPC_PARAMS, "progress");
    expect_error("run.wait", "{\"id\":\"20261129T190102Z-copy_blocking-3f9a\"}", ZC_RPC_NOT_FOUND, "id");
    expect_error("run.cancel", "{\"id\":\"x\"}", ZC_RPC_NOT_FOUND, "id");
    expect_error("session.close", "{\"id\":-1}", ZC_RPC_PARAMS, "id");
    expect_error("run.start", "{}", ZC_RPC_PARAMS, "strategy");
    expect_error("run.start", "{\"strategy\":\"copy_blocking\",\"peer\":\"self\",\"sizes\":1}", ZC_RPC_PARAMS, "sizes");
    expect_error("run.start", "{\"strategy\":\"copy_blocking\",\"peer\":\"self\",\"size\":0}", ZC_RPC_PARAMS, "size");
    expect_error("run.start", "{\"strategy\":\"none\",\"peer\":\"self\"}", ZC_RPC_PARAMS, "strategy");
}

static void test_version(void **state)
{
    (void)state;
    json_t *version = result("version", "{}");
    assert_non_null(json_object_get(version, "version"));
    assert_int_equal(json_integer_value(json_object_get(version, "result_schema")), 1);
    json_decref(version);
}

static void start_run(const char *peer_name, char id[ZC_ID_MAX])
{
    char params[256];
    snprintf(params, sizeof params, "{\"strategy\":\"copy_blocking\",\"peer\":\"%s\"}", peer_name);
    json_t *started = result("run.start", params);
    snprintf(id, ZC_ID_MAX, "%s", json_string_value(json_object_get(started, "id")));
    json_decref(started);
    assert_true(store_id_valid(id));
}

static json_t *wait_for(const char *id)
{
    char params[128];
    snprintf(params, sizeof params, "{\"id\":\"%s\"}", id);
    return result("run.wait", params);
}

static void expect_state(json_t *waited, const char *id, const char *state)
{
    json_t *document = json_object_get(waited, "result");
    assert_string_equal(json_string_value(json_object_get(document, "id")), id);
    assert_string_equal(json_string_value(json_object_get(document, "state")), state);
    json_decref(waited);
}

static void test_run(void **state)
{
    (void)state;
    char id[ZC_ID_MAX], params[128];
    int notifications = 0;
    start_run("self", id);
    snprintf(params, sizeof params, "{\"id\":\"%s\",\"progress\":true}", id);
    send_request("run.wait", params);
    json_t *message = reply(&notifications);
    assert_true(notifications > 0);
    json_t *waited = json_incref(json_object_get(message, "result"));
    json_decref(message);
    const char *path = json_string_value(json_object_get(waited, "path"));
    assert_int_equal(access(path, R_OK), 0);
    assert_true(json_is_null(json_object_get(waited, "store_error")));
    expect_state(waited, id, "done");
    expect_state(wait_for(id), id, "done");     /* after its end, from memory */
    json_t *list = result("result.list", "{}");
    const json_t *row = json_array_get(json_object_get(list, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "peer")), "self");
    assert_true(json_is_true(json_object_get(row, "readable")));
    json_decref(list);
    for (int i = 0; i < RUNS_REMEMBERED + 1; i++) {
        char other[ZC_ID_MAX];
        atomic_store(&measure_ms, 0);
        start_run("192.0.2.1:5", other);
        expect_state(wait_for(other), other, "failed");
        assert_true(strcmp(other, id) > 0);
    }
    expect_state(wait_for(id), id, "done");     /* forgotten: from the store */
    snprintf(params, sizeof params, "{\"id\":\"%s\"}", id);
    json_decref(result("result.delete", params));
    expect_error("run.wait", params, ZC_RPC_NOT_FOUND, "id");
}

static void test_queue_and_cancel(void **state)
{
    (void)state;
    char first[ZC_ID_MAX], second[ZC_ID_MAX], third[ZC_ID_MAX], params[128];
    atomic_store(&measure_ms, 3000);
    start_run("self", first);
    start_run("self", second);
    start_run("self", third);
    json_t *list = result("run.list", "{}"), *rows = json_object_get(list, "runs");
    assert_int_equal(json_array_size(rows), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "state")), "active");
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 1), "state")), "queued");
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 1), "phase")), "queued");
    json_decref(list);
    snprintf(params, sizeof params, "{\"id\":\"%s\"}", second);
    json_decref(result("run.cancel", params));      /* in the queue: at once, and stored */
    expect_state(wait_for(second), second, "cancelled");
    assert_int_equal(atomic_load(&measured), 0);
    assert_true(store_exists(daemon_.store, second));
    expect_error("run.cancel", params, ZC_RPC_NOT_FOUND, "id");
    snprintf(params, sizeof params, "{\"id\":\"%s\"}", first);
    json_decref(result("run.cancel", params));
    expect_state(wait_for(first), first, "cancelled");
    atomic_store(&measure_ms, 0);
    snprintf(params, sizeof params, "{\"id\":\"%s\"}", third);
    json_decref(result("run.cancel", params));
    expect_state(wait_for(third), third, "cancelled");
    struct runs_stats stats;
    runs_stats(daemon_.runs, &stats);
    assert_int_equal(stats.cancelled, 3);
    assert_int_equal(stats.active + stats.queued, 0);
}

/* The client goes; the run goes on, and is stored. */
static void test_client_vanishes(void **state)
{
    (void)state;
    char id[ZC_ID_MAX], params[128];
    start_run("self", id);
    snprintf(params, sizeof params, "{\"id\":\"%s\",\"progress\":true}", id);
    send_request("run.wait", params);
    send_request("run.wait", params);
    turn(0.01);
    close(peer.fd);
    turn(0.3);
    assert_int_equal(control_clients(daemon_.control), 0);
    assert_true(store_exists(daemon_.store, id));
    peer_open(&peer, daemon_.control);
    expect_state(wait_for(id), id, "done");
}

static void test_unwritable(void **state)
{
    (void)state;
    char id[ZC_ID_MAX];
    start_run("self", id);
    json_t *waited = wait_for(id);
    assert_true(json_is_null(json_object_get(waited, "path")));
    assert_non_null(strstr(json_string_value(json_object_get(waited, "store_error")), "cannot be stored"));
    expect_state(waited, id, "done");
    waited = wait_for(id);
    assert_true(json_is_string(json_object_get(waited, "store_error")));
    json_decref(waited);
}

/* Stopping: no more runs, those that are there end as cancelled, and whoever waits is told. */
static void test_stop(void **state)
{
    (void)state;
    char id[ZC_ID_MAX], params[128];
    int ignored = 0;
    atomic_store(&measure_ms, 5000);
    start_run("self", id);
    snprintf(params, sizeof params, "{\"id\":\"%s\"}", id);
    send_request("run.wait", params);
    turn(0.02);
    stopped = false;
    runs_stop(daemon_.runs, on_stopped, loop);
    if (!stopped)
        loop_run(loop);
    json_t *message = reply(&ignored);
    expect_state(json_incref(json_object_get(message, "result")), id, "cancelled");
    json_decref(message);
    expect_error("run.start", "{\"strategy\":\"copy_blocking\",\"peer\":\"self\"}", ZC_RPC_BUSY, "");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_every_method), T(test_names), T(test_version), T(test_run), T(test_queue_and_cancel), T(test_client_vanishes),
        cmocka_unit_test_setup_teardown(test_unwritable, setup_unwritable, teardown), T(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
