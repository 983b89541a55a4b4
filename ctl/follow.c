/* See follow.h. One loop over the socket and the signals; replies are told apart by their ids. */
#include "follow.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "format.h"
#include "progress.h"
#include "result.h"
#include "zc_json.h"

struct follow {
    struct context *context;
    struct client *client;
    const char *method;             /* that starts it; NULL: run.start */
    const char *label;              /* before the live line, or NULL */
    struct progress progress;
    int signal_fd;                  /* readable: SIGINT or SIGTERM */
    int64_t start_call, wait_call;  /* ids of the calls; 0: not sent */
    char id[ZC_ID_MAX];             /* "" until the daemon has told it */
    bool detach;
    json_t **document;              /* where the result goes instead of being printed; NULL: it is printed */
    bool interrupted;               /* a signal came: the run is being cancelled */
    int status;                     /* exit status; -1 while it goes on */
};

/* SIGINT and SIGTERM become readable, but for those that whoever started us had ignored (nohup, `&` in a script). */
static int open_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM };
    struct sigaction action;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int end(struct follow *follow, int status)
{
    progress_clear(&follow->progress);
    follow->status = status;
    return status;
}

static void fail(struct follow *follow, enum client_status status, const struct zc_error *err)
{
    end(follow, EXIT_FAILED);
    if (status == CLIENT_LOST && follow->id[0] != '\0') {
        command_error(follow->context, "%s (run %s)", err->message, follow->id);
        follow->status = EXIT_UNREACHABLE;
    } else {
        follow->status = command_failed(follow->context, status, err);
    }
}

static void send_call(struct follow *follow, const char *method, json_t *params, int64_t *id)
{
    struct zc_error err;
    enum client_status status = client_send(follow->client, method, params, id, &err);

    if (status != CLIENT_OK)
        fail(follow, status, &err);
}

static void cancel(struct follow *follow)
{
    int64_t ignored;    /* its reply says nothing that the run's own does not */

    send_call(follow, "run.cancel", json_pack("{s:s}", "id", follow->id), &ignored);
}

static void on_signal(struct follow *follow)
{
    struct signalfd_siginfo info;

    if (read(follow->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (follow->interrupted) {
        end(follow, EXIT_INTERRUPTED);
        command_error(follow->context, "left while run %s was being cancelled", follow->id);
        return;
    }
    follow->interrupted = true;
    progress_cancelling(&follow->progress);
    if (follow->id[0] != '\0')
        cancel(follow);
}

/* The run exists: wait for it. */
static void join(struct follow *follow, const char *id)
{
    snprintf(follow->id, sizeof(follow->id), "%s", id);
    send_call(follow, "run.wait", json_pack("{s:s, s:b}", "id", id, "progress", 1), &follow->wait_call);
    if (follow->interrupted && follow->status < 0)
        cancel(follow);
}

static void on_started(struct follow *follow, json_t *answer)
{
    const char *id = json_string_value(json_object_get(answer, "id"));

    if (id == NULL || strlen(id) >= sizeof(follow->id)) {
        end(follow, EXIT_FAILED);
        command_error(follow->context, "zcrdmad gave no id to the run");
    } else if (follow->detach) {
        command_output(follow->context)->started(follow->context->out, answer);
        end(follow, EXIT_DONE);
    } else {
        join(follow, id);
    }
}

static bool measured_something(const json_t *document)
{
    return json_is_number(member_at(document, "throughput.gib_per_s")) ||
           json_is_number(member_at(document, "latency.available.count")) || json_array_size(member_at(document, "cells")) > 0 ||
           json_array_size(member_at(document, "rows")) > 0;
}

static void print_result(const struct context *context, json_t *document, const char *path, bool done)
{
    if (context->json || done || measured_something(document))
        command_output(context)->result(context->out, document);
    if (path != NULL && !context->json && (done || measured_something(document)))
        fprintf(context->out, "%-12s%s\n", "stored", path);
    fflush(context->out);
}

/* One line of the stream: `members` (borrowed) behind their type. At once, because somebody may be reading it. */
static void stream_line(const struct context *context, const char *type, json_t *members)
{
    json_t *line = json_pack("{s:s}", "type", type);

    json_object_update(line, members);
    json_dumpf(line, context->out, ZC_JSON_MESSAGE);
    fputc('\n', context->out);
    fflush(context->out);
    json_decref(line);
}

static void show_result(struct follow *follow, json_t *answer, bool done)
{
    struct context *context = follow->context;
    json_t *document = json_object_get(answer, "result");

    if (context->stream)
        stream_line(context, "result", answer);
    if (follow->document != NULL)
        *follow->document = json_incref(document);
    else if (!context->stream)
        print_result(context, document, json_string_value(json_object_get(answer, "path")), done);
}

/* Print the document and where it is, or hand it over; say on stderr what went wrong. */
static void on_result(struct follow *follow, json_t *answer)
{
    struct context *context = follow->context;
    json_t *document = json_object_get(answer, "result");
    const char *state = text_at(document, "state");
    const char *store_error = json_string_value(json_object_get(answer, "store_error"));
    bool done = strcmp(state, zc_run_state_names[ZC_RUN_DONE]) == 0;
    bool cancelled = strcmp(state, zc_run_state_names[ZC_RUN_CANCELLED]) == 0;

    end(follow, done ? EXIT_DONE : follow->interrupted && cancelled ? EXIT_INTERRUPTED : EXIT_FAILED);
    show_result(follow, answer, done);
    if (cancelled)
        command_error(context, "run %s was cancelled", follow->id);
    else if (!done)
        command_error(context, "run %s failed: %s", follow->id, text_at(document, "error.message"));
    if (store_error != NULL) {
        command_error(context, "the result was not stored: %s", store_error);
        if (done)
            follow->status = EXIT_FAILED;
    }
}

static void on_progress(struct follow *follow, json_t *params)
{
    if (strcmp(text_at(params, "id"), follow->id) != 0)
        return;
    if (follow->context->stream)
        stream_line(follow->context, "progress", params);
    else
        progress_update(&follow->progress, params);
}

static void on_message(struct follow *follow, json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    int64_t call = follow->wait_call != 0 ? follow->wait_call : follow->start_call;
    struct zc_error err;
    json_t *result = NULL;
    enum client_status status;

    if (method != NULL) {
        if (strcmp(method, "run.progress") == 0)
            on_progress(follow, json_object_get(message, "params"));
        return;
    }
    status = client_reply(message, call, &result, &err);
    if (status == CLIENT_REFUSED)
        fail(follow, status, &err);
    else if (status == CLIENT_OK && call == follow->start_call)
        on_started(follow, result);
    else if (status == CLIENT_OK)
        on_result(follow, result);
}

static void loop(struct follow *follow)
{
    struct zc_error err;
    json_t *message;

    while (follow->status < 0) {
        /* Only the start is answered at once; a run may take a day. */
        int timeout_ms = follow->wait_call == 0 ? CLIENT_TIMEOUT_MS : -1;
        enum client_status status = client_receive(follow->client, follow->signal_fd, timeout_ms, &message, &err);
        if (status == CLIENT_WOKEN) {
            on_signal(follow);
        } else if (status == CLIENT_OK) {
            on_message(follow, message);
            json_decref(message);
        } else {
            fail(follow, status, &err);
        }
    }
}

/* How to follow: a template for struct follow. One of `params` (stolen) and `id` is given. */
static int follow_run(struct follow follow, json_t *params, const char *id)
{
    struct context *context = follow.context;
    struct zc_error err;
    enum client_status status = client_open(context->socket_path, &follow.client, &err);

    if (status != CLIENT_OK) {
        json_decref(params);
        return command_failed(context, status, &err);
    }
    follow.status = -1;
    progress_init(&follow.progress, stderr, follow.label);
    follow.progress.live = follow.progress.live && !context->stream;
    follow.signal_fd = open_signals();
    if (id != NULL)
        join(&follow, id);
    else
        send_call(&follow, follow.method != NULL ? follow.method : "run.start", params, &follow.start_call);
    loop(&follow);
    if (follow.signal_fd >= 0)
        close(follow.signal_fd);
    client_close(follow.client);
    return follow.status;
}

int follow_new(struct context *context, json_t *params, bool detach)
{
    return follow_run((struct follow){ .context = context, .detach = detach }, params, NULL);
}

int follow_start(struct context *context, const char *method, json_t *params, bool detach)
{
    return follow_run((struct follow){ .context = context, .method = method, .detach = detach }, params, NULL);
}

int follow_quietly(struct context *context, json_t *params, const char *label, json_t **document)
{
    return follow_run((struct follow){ .context = context, .label = label, .document = document }, params, NULL);
}

int follow_existing(struct context *context, const char *id)
{
    return follow_run((struct follow){ .context = context }, NULL, id);
}
