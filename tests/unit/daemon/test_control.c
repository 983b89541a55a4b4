/* Framing and the life of calls on a socket pair: one reply for each request, whatever the client does. */
#include "fixture.h"

#include <sys/stat.h>

static struct control *control;
static struct peer peer;
static struct call *kept;
static int handled, gone;

static void on_gone(void *arg)
{
    (void)arg;
    kept = NULL;
    gone++;
}

/* Methods: "echo" answers its params, "keep" is answered by the test, "fail" fails, "big" answers 128 KiB. */
static void handle(void *arg, struct call *call)
{
    (void)arg;
    struct zc_error err = { 0 };
    handled++;
    if (strcmp(call_method(call), "echo") == 0) {
        call_reply(call, call_params(call) ? json_deep_copy(call_params(call)) : json_null());
    } else if (strcmp(call_method(call), "keep") == 0) {
        kept = call;
        call_on_gone(call, on_gone, NULL);
    } else if (strcmp(call_method(call), "big") == 0) {
        char text[128 << 10];
        memset(text, 'x', sizeof text);
        call_reply(call, json_stringn(text, sizeof text));
    } else {
        zc_error_set(&err, ZC_ERR_INVALID, -EINVAL, "size", "size is wrong");
        call_fail(call, &err);
    }
}

static int setup(void **state)
{
    (void)state;
    struct control_params params = { .handle = handle };
    struct zc_error err = { 0 };
    fixture_open();
    params.loop = loop;
    handled = gone = 0;
    kept = NULL;
    if (control_create(&params, &control, &err) != 0)
        return -1;
    peer_open(&peer, control);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(peer.fd);
    control_destroy(control);
    fixture_close();
    return 0;
}

static void expect_id(json_int_t id)
{
    json_t *reply = peer_receive(&peer);
    assert_non_null(reply);
    assert_int_equal(json_integer_value(json_object_get(reply, "id")), id);
    assert_non_null(json_object_get(reply, "result"));
    json_decref(reply);
}

static void expect_error(json_int_t code)
{
    json_t *reply = peer_receive(&peer);
    assert_non_null(reply);
    assert_int_equal(error_code(reply), code);
    json_decref(reply);
}

#define ECHO(id) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"echo\",\"params\":{\"a\":1}}\n"

static void test_one_and_two(void **state)
{
    (void)state;
    peer_send(&peer, ECHO(1));
    turn(0.02);
    expect_id(1);
    peer_send(&peer, ECHO(2) ECHO(3));
    turn(0.02);
    expect_id(2);
    expect_id(3);
    assert_null(peer_receive(&peer));
}

static void test_half_lines(void **state)
{
    (void)state;
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":7,");
    turn(0.02);
    assert_null(peer_receive(&peer));
    peer_send(&peer, "\"method\":\"echo\"}");
    turn(0.02);
    assert_int_equal(handled, 0);
    peer_send(&peer, "\n");
    turn(0.02);
    expect_id(7);
}

static void test_malformed(void **state)
{
    (void)state;
    peer_send(&peer, "nonsense\n");
    peer_send(&peer, "[]\n");
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1}\n");
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"fail\"}\n" ECHO(3));
    turn(0.02);
    expect_error(ZC_RPC_PARSE);
    expect_error(ZC_RPC_REQUEST);
    expect_error(ZC_RPC_REQUEST);
    json_t *reply = peer_receive(&peer);
    assert_int_equal(error_code(reply), ZC_RPC_PARAMS);
    assert_string_equal(error_field(reply), "size");
    json_decref(reply);
    expect_id(3);
    assert_null(peer_receive(&peer));
}

static void test_overlong(void **state)
{
    (void)state;
    size_t length = ZC_RPC_LINE_MAX + 100, sent = 0;
    char *line = malloc(length);
    memset(line, ' ', length);
    line[length - 1] = '\n';
    while (sent < length) {
        ssize_t now = send(peer.fd, line + sent, length - sent, MSG_NOSIGNAL);
        if (now > 0)
            sent += (size_t)now;
        turn(0.001);
    }
    free(line);
    peer_send(&peer, ECHO(4));
    turn(0.02);
    expect_error(ZC_RPC_TOO_LONG);
    expect_id(4);
    assert_null(peer_receive(&peer));
}

static void test_notification(void **state)
{
    (void)state;
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"fail\"}\n");
    turn(0.02);
    assert_int_equal(handled, 2);
    assert_null(peer_receive(&peer));
}

static void test_answered_later(void **state)
{
    (void)state;
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":\"w\",\"method\":\"keep\"}\n" ECHO(5));
    turn(0.02);
    expect_id(5);
    assert_non_null(kept);
    call_notify(kept, "progress", json_pack("{s:i}", "n", 1));
    call_reply(kept, json_true());
    turn(0.02);
    json_t *message = peer_receive(&peer);
    assert_string_equal(json_string_value(json_object_get(message, "method")), "progress");
    json_decref(message);
    message = peer_receive(&peer);
    assert_string_equal(json_string_value(json_object_get(message, "id")), "w");
    json_decref(message);
    assert_int_equal(gone, 0);
}

static void test_half_close(void **state)
{
    (void)state;
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}");
    shutdown(peer.fd, SHUT_WR);
    turn(0.02);
    expect_id(2);       /* though its line did not end */
    assert_false(peer_closed(&peer));
    assert_non_null(kept);
    call_reply(kept, json_true());
    turn(0.02);
    expect_id(1);
    assert_true(peer_closed(&peer));
    assert_int_equal(control_clients(control), 0);
}

static void test_vanished(void **state)
{
    (void)state;
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}\n");
    turn(0.02);
    assert_non_null(kept);
    close(peer.fd);
    turn(0.02);
    assert_int_equal(gone, 1);
    assert_int_equal(control_clients(control), 0);
    peer_open(&peer, control);      /* for teardown */
}

/* More requests than one turn handles, in one write: all answered, in order. */
static void test_many(void **state)
{
    (void)state;
    char text[128];
    for (int i = 0; i < 10 * CONTROL_MESSAGES_A_TURN; i++) {
        snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"echo\"}\n", i);
        peer_send(&peer, text);
    }
    shutdown(peer.fd, SHUT_WR);
    turn(0.1);
    for (int i = 0; i < 10 * CONTROL_MESSAGES_A_TURN; i++)
        expect_id(i);
    assert_true(peer_closed(&peer));
}

static void test_too_many_calls(void **state)
{
    (void)state;
    for (int i = 0; i <= CONTROL_CALLS_MAX; i++)
        peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}\n");
    turn(0.05);
    expect_error(ZC_RPC_BUSY);
    assert_null(peer_receive(&peer));
}

/* Never reads: thrown out, and the others are served meanwhile. */
static void test_does_not_read(void **state)
{
    (void)state;
    struct peer other;
    peer_open(&other, control);
    const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n";
    for (int i = 0; i < 100 && control_clients(control) == 2; i++) {
        if (send(peer.fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
            break;
        turn(0.002);
    }
    turn(0.02);
    assert_int_equal(control_clients(control), 1);
    peer_send(&other, ECHO(9));
    turn(0.02);
    json_t *reply = peer_receive(&other);
    assert_non_null(reply);
    json_decref(reply);
    close(other.fd);
}

/* Beyond the limit: one line that says so, then the end; those who are in are served. */
static void test_limit(void **state)
{
    (void)state;
    struct peer others[2];
    int fds[2];
    control_set_max_clients(control, 3);
    for (int i = 0; i < 2; i++)
        peer_open(&others[i], control);
    struct peer refused = { 0 };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    refused.fd = fds[0];
    assert_int_equal(control_adopt(control, fds[1]), -EBUSY);
    json_t *reply = peer_receive(&refused);
    assert_int_equal(error_code(reply), ZC_RPC_BUSY);
    assert_true(json_is_null(json_object_get(reply, "id")));
    json_decref(reply);
    assert_true(peer_closed(&refused));
    close(refused.fd);
    assert_int_equal(control_clients(control), 3);
    assert_int_equal(control_refused(control), 1);
    peer_send(&peer, ECHO(1));
    turn(0.02);
    expect_id(1);
    close(others[0].fd);
    turn(0.02);
    assert_int_equal(control_clients(control), 2);
    peer_open(&others[0], control);     /* there is room again */
    for (int i = 0; i < 2; i++)
        close(others[i].fd);
}

static int drained;
static void on_drained(void *arg)
{
    (void)arg;
    drained++;
}

static void test_drain(void **state)
{
    (void)state;
    peer_send(&peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}\n");
    turn(0.02);
    control_drain(control, on_drained, NULL);
    turn(0.02);
    assert_int_equal(drained, 0);
    call_reply(kept, json_true());
    turn(0.02);
    assert_int_equal(drained, 1);
    expect_id(1);
    assert_true(peer_closed(&peer));
}

/* The socket file: lock, stale socket, mode, foreign file. */
static void test_socket_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/zc-control-XXXXXX", path[64], deep[64], lock[80];
    struct control *first, *second;
    struct zc_error err = { 0 };
    struct stat stat_;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a/b/s", folder);
    snprintf(lock, sizeof lock, "%s.lock", path);
    struct control_params params = { .loop = loop, .path = path, .access = { NULL, 0640 }, .handle = handle };
    assert_int_equal(control_create(&params, &first, &err), 0);
    assert_int_equal(stat(path, &stat_), 0);
    assert_int_equal(stat_.st_mode & 0777, 0640);
    control_destroy(first);
    params.access = (struct control_access){ "no-such-group", 0660 };
    assert_int_equal(control_create(&params, &first, &err), 0);
    assert_int_equal(stat(path, &stat_), 0);
    assert_int_equal(stat_.st_mode & 0777, 0600);
    assert_int_equal(control_create(&params, &second, &err), -EADDRINUSE);
    assert_int_equal(err.kind, ZC_ERR_BUSY);
    snprintf(deep, sizeof deep, "process %d", (int)getpid());
    assert_non_null(strstr(err.message, deep));
    control_destroy(first);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(lock, F_OK), -1);
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    struct { unsigned short family; char path[108]; } address = { .family = AF_UNIX };
    snprintf(address.path, sizeof address.path, "%s", path);
    assert_int_equal(bind(stale, (void *)&address, sizeof address), 0);
    close(stale);
    assert_int_equal(control_create(&params, &first, &err), 0);
    control_destroy(first);
    fclose(fopen(path, "w"));
    assert_true(control_create(&params, &first, &err) < 0);
    assert_non_null(strstr(err.message, "is not a socket"));
    assert_int_equal(access(path, F_OK), 0);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_one_and_two), T(test_half_lines), T(test_malformed), T(test_overlong), T(test_notification), T(test_answered_later),
        T(test_half_close), T(test_vanished), T(test_many), T(test_too_many_calls), T(test_does_not_read), T(test_limit), T(test_drain),
        T(test_socket_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
