/* zcctl as a whole against a daemon played by a thread: exit statuses, what goes to stdout and stderr, cancelling, losing the
 * daemon. One scenario a test. */
#include "../proto/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "command.h"
#include "result_json.h"
#include "rpc.h"

/* ---- the daemon ---- */

static struct daemon {
    int listener, fd;
    char folder[64], path[96];
    struct zc_rpc_reader reader;
    void (*serve)(struct daemon *daemon);
    pthread_t thread;
} daemon_;

/* The next request; its root is NULL when the client has gone. */
static struct zc_rpc_request next_request(struct daemon *d)
{
    struct zc_rpc_request request = { 0 };
    const char *line;
    size_t length;
    char bytes[4096];

    while (zc_rpc_reader_next(&d->reader, &line, &length) != ZC_RPC_LINE) {
        ssize_t n = read(d->fd, bytes, sizeof(bytes));
        if (n <= 0)
            return request;
        if (zc_rpc_reader_feed(&d->reader, bytes, (size_t)n) != 0)
            abort();
    }
    json_decref(zc_rpc_request_decode(line, length, &request));
    return request;
}

static void send_message(struct daemon *d, json_t *message)
{
    size_t length;
    char *line = zc_rpc_encode(message, &length);

    if (line == NULL || send(d->fd, line, length, MSG_NOSIGNAL) < 0)
        fprintf(stderr, "the client has gone\n");
    free(line);
    json_decref(message);
}

/* Expect `method`, answer `result` (stolen). */
static void answer(struct daemon *d, const char *method, json_t *result)
{
    struct zc_rpc_request request = next_request(d);

    if (request.root == NULL || strcmp(request.method, method) != 0)
        abort();
    send_message(d, zc_rpc_reply(request.id, result));
    zc_rpc_request_destroy(&request);
}

static void refuse(struct daemon *d, enum zc_error_kind kind, const char *text)
{
    struct zc_rpc_request request = next_request(d);
    struct zc_error err;

    zc_error_set(&err, kind, 0, "field", "%s", text);
    send_message(d, zc_rpc_error_reply_from(request.id, &err));
    zc_rpc_request_destroy(&request);
}

static void *serve(void *arg)
{
    struct daemon *d = arg;

    d->fd = accept(d->listener, NULL, NULL);
    zc_rpc_reader_init(&d->reader);
    d->serve(d);
    zc_rpc_reader_destroy(&d->reader);
    close(d->fd);
    return NULL;
}

static int start_folder(void **state)
{
    (void)state;
    strcpy(daemon_.folder, "/tmp/zcctl-test-XXXXXX");
    if (mkdtemp(daemon_.folder) == NULL)
        return -1;
    snprintf(daemon_.path, sizeof(daemon_.path), "%s/socket", daemon_.folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(daemon_.folder);
}

static void start_daemon(void (*scenario)(struct daemon *))
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    sigset_t set, before;

    strcpy(address.sun_path, daemon_.path);
    daemon_.serve = scenario;
    daemon_.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(daemon_.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(daemon_.listener, 1), 0);
    sigfillset(&set);   /* signals are the client's */
    pthread_sigmask(SIG_BLOCK, &set, &before);
    assert_int_equal(pthread_create(&daemon_.thread, NULL, serve, &daemon_), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_daemon(void)
{
    pthread_join(daemon_.thread, NULL);
    close(daemon_.listener);
    unlink(daemon_.path);
}

/* ---- the client ---- */

static char *out_text, err_text[4096];

/* Words separated by blanks; what it prints goes to out_text and err_text. */
static int zcctl(const char *line)
{
    char words[512], *argv[32], log_path[96];
    int argc = 0, status, saved = dup(STDERR_FILENO), log;
    size_t length;
    ssize_t n;
    FILE *out;

    snprintf(words, sizeof(words), "zcctl --socket %s %s", daemon_.path, line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    snprintf(log_path, sizeof(log_path), "%s/log", daemon_.folder);
    log = open(log_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    unlink(log_path);
    dup2(log, STDERR_FILENO);
    free(out_text);
    out_text = NULL;
    out = open_memstream(&out_text, &length);
    status = command_main(argc, argv, out);
    fclose(out);
    dup2(saved, STDERR_FILENO);
    close(saved);
    n = pread(log, err_text, sizeof(err_text) - 1, 0);
    err_text[n > 0 ? n : 0] = '\0';
    close(log);
    return status;
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

#define RUN "run --strategy copy_blocking --peer self --size 64K"

static json_t *outcome(enum zc_run_state run_state, bool measured, const char *path, const char *store_error)
{
    struct zc_result result;
    json_t *doc;

    zc_result_init(&result);
    strcpy(result.id, "run-1");
    result.config.strategy = ZC_COPY_BLOCKING;
    result.state = run_state;
    if (run_state != ZC_RUN_DONE)
        zc_error_set(&result.error, ZC_ERR_PEER, 0, NULL, "the peer was lost");
    if (measured)
        result.throughput = (struct zc_throughput){ .measured = true, .bytes = 1 << 30, .requests = 1, .duration_ns = 500000000 };
    doc = json_pack("{s:o, s:s?, s:s?}", "result", zc_result_to_json(&result), "path", path, "store_error", store_error);
    zc_result_destroy(&result);
    return doc;
}

/* ---- scenarios ---- */

static void good_run(struct daemon *d)
{
    struct zc_rpc_request start = next_request(d);

    /* Only what was given travels, typed. */
    if (json_object_size(start.params) != 3 || json_integer_value(json_object_get(start.params, "size")) != 65536)
        abort();
    send_message(d, zc_rpc_reply(start.id, json_pack("{s:s}", "id", "run-1")));
    zc_rpc_request_destroy(&start);
    send_message(d, zc_rpc_notification("run.progress", json_pack("{s:s, s:s, s:f}", "id", "run-1", "phase", "warmup", "elapsed_s", 1.0)));
    send_message(d, zc_rpc_notification("unheard.of", NULL));
    answer(d, "run.wait", outcome(ZC_RUN_DONE, true, "/results/run-1.json", NULL));
}

static void test_run(void **state)
{
    (void)state;
    start_daemon(good_run);
    assert_int_equal(zcctl(RUN), EXIT_DONE);
    stop_daemon();
    assert_contains(out_text, "2.00 GiB/s");
    assert_contains(out_text, "stored      /results/run-1.json\n");
    assert_string_equal(err_text, "");      /* no progress outside a terminal */

    start_daemon(good_run);
    assert_int_equal(zcctl(RUN " --json"), EXIT_DONE);
    stop_daemon();
    json_t *doc = json_loads(out_text, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "state")), "done");      /* the document itself */
    json_decref(doc);
}

static void failed_wait(struct daemon *d)
{
    answer(d, "run.wait", outcome(ZC_RUN_FAILED, false, "/results/run-1.json", NULL));
}

/* A line a message: progress, then the result with everything that run.wait answered. */
static void test_stream(void **state)
{
    json_t *first, *last;
    char *newline;

    (void)state;
    start_daemon(good_run);
    assert_int_equal(zcctl(RUN " --json-stream"), EXIT_DONE);
    stop_daemon();
    assert_string_equal(err_text, "");
    newline = strchr(out_text, '\n');
    first = json_loadb(out_text, (size_t)(newline - out_text), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(first, "type")), "progress");
    assert_string_equal(json_string_value(json_object_get(first, "phase")), "warmup");
    last = json_loads(newline + 1, 0, NULL);        /* nothing behind it */
    assert_string_equal(json_string_value(json_object_get(last, "type")), "result");
    assert_string_equal(json_string_value(json_object_get(last, "path")), "/results/run-1.json");
    assert_string_equal(json_string_value(json_object_get(json_object_get(last, "result"), "state")), "done");
    json_decref(first);
    json_decref(last);

    start_daemon(failed_wait);
    assert_int_equal(zcctl("wait run-1 --json-stream"), EXIT_FAILED);
    stop_daemon();
    assert_contains(out_text, "{\"type\":\"result\"");
    assert_string_equal(err_text, "zcctl wait: run run-1 failed: the peer was lost\n");

    assert_int_equal(zcctl(RUN " --json-stream --detach"), EXIT_USAGE);
    assert_string_equal(err_text, "zcctl run: --detach leaves nothing for --json-stream\n");
}

static void not_stored(struct daemon *d)
{
    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
    answer(d, "run.wait", outcome(ZC_RUN_DONE, true, NULL, "No space left on device"));
}

static void test_not_stored(void **state)
{
    (void)state;
    start_daemon(not_stored);
    assert_int_equal(zcctl(RUN), EXIT_FAILED);
    stop_daemon();
    assert_contains(out_text, "2.00 GiB/s");
    assert_string_equal(err_text, "zcctl run: the result was not stored: No space left on device\n");
}

static void failed_run(struct daemon *d)
{
    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
    answer(d, "run.wait", outcome(ZC_RUN_FAILED, false, "/results/run-1.json", NULL));
}

static void test_failed(void **state)
{
    (void)state;
    start_daemon(failed_run);
    assert_int_equal(zcctl(RUN), EXIT_FAILED);
    stop_daemon();
    assert_string_equal(out_text, "");
    assert_string_equal(err_text, "zcctl run: run run-1 failed: the peer was lost\n");
}

static void refuse_params(struct daemon *d)
{
    refuse(d, ZC_ERR_INVALID, "size: 64K is larger than the peer's region");
}
static void refuse_busy(struct daemon *d)
{
    refuse(d, ZC_ERR_BUSY, "too many runs are queued");
}

static void test_refused(void **state)
{
    (void)state;
    start_daemon(refuse_params);
    assert_int_equal(zcctl(RUN), EXIT_USAGE);
    stop_daemon();
    assert_string_equal(err_text, "zcctl run: size: 64K is larger than the peer's region\n");
    start_daemon(refuse_busy);
    assert_int_equal(zcctl(RUN), EXIT_FAILED);
    stop_daemon();
    assert_string_equal(err_text, "zcctl run: too many runs are queued\n");
}

static void interrupt_before_the_id(struct daemon *d)
{
    struct zc_rpc_request start = next_request(d), request;

    kill(getpid(), SIGINT);
    usleep(50000);      /* the client sees the signal first */
    send_message(d, zc_rpc_reply(start.id, json_pack("{s:s}", "id", "run-1")));
    zc_rpc_request_destroy(&start);
    request = next_request(d);      /* run.wait; its answer comes last */
    answer(d, "run.cancel", json_pack("{s:b}", "cancelled", 1));
    send_message(d, zc_rpc_reply(request.id, outcome(ZC_RUN_CANCELLED, false, NULL, NULL)));
    zc_rpc_request_destroy(&request);
}

static void interrupt_while_waiting(struct daemon *d)
{
    struct zc_rpc_request request;

    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
    request = next_request(d);
    kill(getpid(), SIGTERM);
    refuse(d, ZC_ERR_NOT_FOUND, "no such run");     /* the reply to run.cancel does not matter */
    send_message(d, zc_rpc_reply(request.id, outcome(ZC_RUN_CANCELLED, true, NULL, NULL)));
    zc_rpc_request_destroy(&request);
}

static void interrupt_twice(struct daemon *d)
{
    struct zc_rpc_request request;

    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
    kill(getpid(), SIGINT);
    for (request = next_request(d); request.root != NULL; request = next_request(d)) {
        if (strcmp(request.method, "run.cancel") == 0)
            kill(getpid(), SIGINT);
        zc_rpc_request_destroy(&request);
    }
}

static void interrupt_too_late(struct daemon *d)
{
    struct zc_rpc_request request;

    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
    request = next_request(d);
    kill(getpid(), SIGINT);
    refuse(d, ZC_ERR_NOT_FOUND, "no such run");
    send_message(d, zc_rpc_reply(request.id, outcome(ZC_RUN_DONE, true, NULL, NULL)));
    zc_rpc_request_destroy(&request);
}

static void test_interrupt(void **state)
{
    (void)state;
    start_daemon(interrupt_before_the_id);
    assert_int_equal(zcctl(RUN), EXIT_INTERRUPTED);
    stop_daemon();
    assert_string_equal(err_text, "zcctl run: run run-1 was cancelled\n");
    start_daemon(interrupt_while_waiting);
    assert_int_equal(zcctl(RUN), EXIT_INTERRUPTED);
    stop_daemon();
    assert_contains(out_text, "2.00 GiB/s");    /* what was measured before is shown */
    start_daemon(interrupt_twice);
    assert_int_equal(zcctl(RUN), EXIT_INTERRUPTED);
    stop_daemon();
    assert_contains(err_text, "zcctl run: left while run run-1 was being cancelled");
    start_daemon(interrupt_too_late);
    assert_int_equal(zcctl(RUN), EXIT_DONE);
    stop_daemon();
}

static void vanish(struct daemon *d)
{
    struct zc_rpc_request request;

    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
    request = next_request(d);
    zc_rpc_request_destroy(&request);
}
static void talk_nonsense(struct daemon *d)
{
    struct zc_rpc_request request = next_request(d);

    zc_rpc_request_destroy(&request);
    if (write(d->fd, "HTTP/1.1 400 Bad Request\n", 25) != 25)
        abort();
}

static void test_lost(void **state)
{
    (void)state;
    start_daemon(vanish);
    assert_int_equal(zcctl(RUN), EXIT_UNREACHABLE);
    stop_daemon();
    assert_string_equal(err_text, "zcctl run: lost the connection to zcrdmad: it has closed it (run run-1)\n");
    start_daemon(talk_nonsense);
    assert_int_equal(zcctl("stats"), EXIT_UNREACHABLE);
    stop_daemon();
    assert_string_equal(err_text, "zcctl stats: lost the connection to zcrdmad: it does not speak JSON-RPC\n");
}

static void test_unreachable(void **state)
{
    (void)state;
    assert_int_equal(zcctl("stats"), EXIT_UNREACHABLE);
    assert_contains(err_text, "zcctl stats: cannot reach zcrdmad at /tmp/");
    assert_contains(err_text, "No such file or directory (is it running? systemctl start zcrdmad)\n");
    assert_int_equal(zcctl("version"), EXIT_UNREACHABLE);
    assert_contains(out_text, "zcctl");     /* ours is printed all the same */
    assert_int_equal(zcctl("version --socket /tmp/" "0123456789012345678901234567890123456789012345678901234567890123456789"
                           "0123456789012345678901234567890123456789"), EXIT_UNREACHABLE);
    assert_contains(err_text, "File name too long");
}

static void test_strategies(void **state)
{
    (void)state;        /* and no daemon */
    assert_int_equal(zcctl("strategies"), EXIT_DONE);
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++) {
        assert_contains(out_text, zc_strategy_infos[i].name);
        assert_contains(out_text, zc_strategy_infos[i].shows);
    }
    assert_contains(out_text, "--concurrency-dereg");
    for (const char *line = out_text; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    assert_int_equal(zcctl("strategies --json"), EXIT_DONE);
    assert_contains(out_text, "\"alias\": \"blocking_ideal\"");
    assert_int_equal(zcctl("strategies x"), EXIT_USAGE);
}

static void start_only(struct daemon *d)
{
    answer(d, "run.start", json_pack("{s:s}", "id", "run-1"));
}

static void test_detach(void **state)
{
    (void)state;
    start_daemon(start_only);
    assert_int_equal(zcctl(RUN " --detach"), EXIT_DONE);
    stop_daemon();
    assert_string_equal(out_text, "run-1\n");
}

static void get_result(struct daemon *d)
{
    json_t *doc = outcome(ZC_RUN_DONE, true, NULL, NULL);

    answer(d, "result.get", json_incref(json_object_get(doc, "result")));
    json_decref(doc);
}
static void delete_result(struct daemon *d)
{
    answer(d, "result.delete", json_pack("{s:b}", "deleted", 1));
}
static void no_such_result(struct daemon *d)
{
    refuse(d, ZC_ERR_NOT_FOUND, "no result x");
}

static void test_results(void **state)
{
    char line[160], path[96];
    struct stat status;

    (void)state;
    snprintf(path, sizeof(path), "%s/doc.json", daemon_.folder);
    snprintf(line, sizeof(line), "results get run-1 -o %s", path);
    start_daemon(get_result);
    assert_int_equal(zcctl(line), EXIT_DONE);
    stop_daemon();
    assert_string_equal(out_text, "");
    json_t *doc = json_load_file(path, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "id")), "run-1");
    json_decref(doc);
    unlink(path);
    start_daemon(no_such_result);
    assert_int_equal(zcctl(line), EXIT_FAILED);
    stop_daemon();
    assert_int_not_equal(stat(path, &status), 0);   /* no file for what does not exist */
    start_daemon(get_result);
    assert_int_equal(zcctl("results show run-1"), EXIT_DONE);
    stop_daemon();
    assert_contains(out_text, "2.00 GiB/s");
    start_daemon(delete_result);
    assert_int_equal(zcctl("results delete run-1"), EXIT_DONE);
    stop_daemon();
    assert_string_equal(out_text, "deleted run-1\n");
}

static void test_usage(void **state)
{
    static const char *const wrong[] = {
        "", "rnu", "run", RUN " extra", "run --strategy copy_blocking", "stats x", "results get", "results get a b", "results eat x",
        "results list -o f", "results delete", "sessions close", "sessions close x", "runs cancel", "wait", "--sokcet x stats",
        RUN " --skip-latency --skip-throughput",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(zcctl(wrong[i]), EXIT_USAGE);
        assert_string_equal(out_text, "");
        assert_true(strlen(err_text) > 10);
    }
    assert_int_equal(zcctl("rnu"), EXIT_USAGE);
    assert_string_equal(err_text, "zcctl: unknown command \"rnu\" (did you mean run?)\n");
    assert_int_equal(zcctl("results shwo x"), EXIT_USAGE);
    assert_string_equal(err_text, "zcctl results: there is no shwo (did you mean zcctl results show?)\n");
    assert_int_equal(zcctl("wait x --json-steam"), EXIT_USAGE);
    assert_string_equal(err_text, "zcctl wait: unknown option --json-steam (did you mean --json-stream?)\n");
    assert_int_equal(zcctl("results show"), EXIT_USAGE);
    assert_contains(err_text, "zcctl results: usage: zcctl results [list | show ID");
}

static void test_help(void **state)
{
    char line[64];

    (void)state;
    assert_int_equal(zcctl("--help"), EXIT_DONE);
    assert_int_equal(zcctl("-h"), EXIT_DONE);
    for (const struct command *command = commands; command->name != NULL; command++) {
        assert_int_equal(zcctl("help"), EXIT_DONE);
        assert_contains(out_text, command->name);
        snprintf(line, sizeof(line), "%s --help", command->name);
        assert_int_equal(zcctl(line), EXIT_DONE);
        assert_contains(out_text, "Usage: zcctl ");
        assert_contains(out_text, "--json");
        snprintf(line, sizeof(line), "help %s", command->name);
        assert_int_equal(zcctl(line), EXIT_DONE);
        assert_string_equal(err_text, "");
    }
    assert_int_equal(zcctl("run --help"), EXIT_DONE);
    assert_contains(out_text, "--operations-max N");
    assert_int_equal(zcctl("--version"), EXIT_DONE);
    assert_int_equal(zcctl("stats -V"), EXIT_DONE);
    assert_contains(out_text, "zcctl ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_not_stored),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_detach),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_help),
    };
    int status = cmocka_run_group_tests(tests, start_folder, remove_folder);

    free(out_text);
    return status;
}
