/* Clients of the control socket. See control.h. A client that is over is only marked `dead`; it is destroyed from its own timer in
 * the next turn of the loop, so that handlers, and whoever answers many calls in a row, may answer and notify as they like. */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

enum { READ_BYTES = 64 << 10, ACCEPTS_A_TURN = 16 };
static const double ACCEPT_PAUSE_S = 1., HANG_UP_CHECK_S = 1.;
static const uint64_t REFUSALS_LOGGED_NS = UINT64_C(60) * 1000000000;

struct client {
    struct control *control;
    struct client *next, **link;
    int fd;
    struct control_user user;
    struct loop_io *io;
    struct loop_timer *again;       /* messages are left for the next turn; after EOF: has it hung up? */
    struct zc_rpc_reader reader;
    char *output;                   /* bytes [sent, length) wait to be written */
    size_t output_length, output_capacity, output_sent;
    struct call *calls;             /* not answered yet */
    size_t call_count;
    bool pending;                   /* complete lines may be left in the reader: do not read more yet */
    bool eof;                       /* it will send nothing more */
    bool dead;                      /* broken, thrown out or finished: its timer destroys it */
};

struct call {
    struct client *client;
    struct call *next, **link;
    struct zc_rpc_request request;
    void (*gone)(void *arg);
    void *gone_arg;
};

struct control {
    struct loop *loop;
    void (*handle)(void *arg, struct call *call);
    void *arg;
    struct control_socket socket;
    struct loop_io *listener;
    struct loop_timer *accept_again;
    struct client *clients;
    size_t client_count, max_clients;   /* max_clients 0: no limit */
    gid_t group;                        /* whose members are let in; (gid_t)-1: nobody's */
    uint64_t refused, refusal_logged_ns;
    void (*drained)(void *arg);
    void *drained_arg;
    bool draining;
};

static void client_settle(struct client *client);

/* ---- output */

static bool output_empty(const struct client *client)
{
    return client->output_sent == client->output_length;
}

static void output_flush(struct client *client)
{
    while (!client->dead && !output_empty(client)) {
        ssize_t sent = send(client->fd, client->output + client->output_sent, client->output_length - client->output_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (sent < 0)
            client->dead = true;
        else
            client->output_sent += (size_t)sent;
    }
    free(client->output);
    client->output = NULL;
    client->output_length = client->output_capacity = client->output_sent = 0;
}

static int output_append(struct client *client, const char *bytes, size_t length)
{
    if (client->output_sent) {
        memmove(client->output, client->output + client->output_sent, client->output_length - client->output_sent);
        client->output_length -= client->output_sent;
        client->output_sent = 0;
    }
    if (client->output_length + length > client->output_capacity) {
        size_t capacity = client->output_capacity ? client->output_capacity : 4096;
        while (capacity < client->output_length + length)
            capacity *= 2;
        char *grown = realloc(client->output, capacity);
        if (!grown)
            return -ENOMEM;
        client->output = grown;
        client->output_capacity = capacity;
    }
    memcpy(client->output + client->output_length, bytes, length);
    client->output_length += length;
    return 0;
}

/* Steals the message. A client whose reply cannot even be built is closed: an unanswered request would leave it waiting. */
static void client_send(struct client *client, json_t *message, const json_t *id)
{
    size_t length = 0;
    char *line = message ? zc_rpc_encode(message, &length) : NULL;
    json_decref(message);
    if (line && length > ZC_RPC_LINE_MAX) {
        free(line);
        message = zc_rpc_error_reply(id, ZC_RPC_TOO_LONG, "the answer is longer than a message may be", NULL, "resource");
        line = message ? zc_rpc_encode(message, &length) : NULL;
        json_decref(message);
    }
    if (client->dead) {
        free(line);
        return;
    }
    if (!line || output_append(client, line, length) != 0) {
        log_error("no memory for the reply to a control client: disconnected");
        client->dead = true;
    }
    free(line);
    output_flush(client);
    if (client->output_length - client->output_sent > CONTROL_OUTPUT_HIGH_BYTES) {
        log_warning("a control client does not read its replies: disconnected with %zu bytes unread",
                    client->output_length - client->output_sent);
        client->dead = true;
    }
}

/* ---- calls */

const char *call_method(const struct call *call)
{
    return call->request.method;
}

const json_t *call_params(const struct call *call)
{
    return call->request.params;
}

const struct control_user *call_user(const struct call *call)
{
    return &call->client->user;
}

void call_on_gone(struct call *call, void (*gone)(void *arg), void *arg)
{
    call->gone = gone;
    call->gone_arg = arg;
}

static struct call *call_create(struct client *client, const struct zc_rpc_request *request)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->client = client;
    call->request = *request;
    call->next = client->calls;
    call->link = &client->calls;
    if (call->next)
        call->next->link = &call->next;
    client->calls = call;
    client->call_count++;
    return call;
}

static void call_destroy(struct call *call)
{
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    call->client->call_count--;
    zc_rpc_request_destroy(&call->request);
    free(call);
}

static void call_end(struct call *call, json_t *reply)
{
    struct client *client = call->client;
    if (call->request.id)
        client_send(client, reply, call->request.id);
    else
        json_decref(reply);     /* a notification */
    call_destroy(call);
    client_settle(client);
}

void call_reply(struct call *call, json_t *result)
{
    call_end(call, zc_rpc_reply(call->request.id, result));
}

void call_fail(struct call *call, const struct zc_error *err)
{
    call_end(call, zc_rpc_error_reply_from(call->request.id, err));
}

void call_fail_code(struct call *call, enum zc_rpc_code code, const char *message, const char *field, const char *kind)
{
    call_end(call, zc_rpc_error_reply(call->request.id, code, message, field, kind));
}

void call_notify(struct call *call, const char *method, json_t *params)
{
    struct client *client = call->client;
    if (!params || client->dead || client->output_length - client->output_sent > CONTROL_OUTPUT_LOW_BYTES) {
        json_decref(params);
        return;
    }
    json_t *message = zc_rpc_notification(method, params);
    if (message)
        client_send(client, message, NULL);
    client_settle(client);
}

/* ---- input */

static void handle_line(struct client *client, const char *line, size_t length)
{
    struct zc_rpc_request request;
    json_t *refusal = zc_rpc_request_decode(line, length, &request);
    if (refusal) {
        client_send(client, refusal, NULL);
        return;
    }
    if (client->call_count >= CONTROL_CALLS_MAX) {
        if (request.id)
            client_send(client, zc_rpc_error_reply(request.id, ZC_RPC_BUSY, "too many unanswered requests on this connection",
                                                   NULL, "busy"), request.id);
        zc_rpc_request_destroy(&request);
        return;
    }
    struct call *call = call_create(client, &request);
    if (call) {
        client->control->handle(client->control->arg, call);
    } else {
        client->dead = true;
        zc_rpc_request_destroy(&request);
    }
}

static void handle_messages(struct client *client)
{
    client->pending = true;
    for (int i = 0; i < CONTROL_MESSAGES_A_TURN && !client->dead; i++) {
        const char *line;
        size_t length;
        switch (zc_rpc_reader_next(&client->reader, &line, &length)) {
        case ZC_RPC_MORE: client->pending = false; return;
        case ZC_RPC_LINE: handle_line(client, line, length); break;
        case ZC_RPC_OVERLONG:
            client_send(client, zc_rpc_error_reply(NULL, ZC_RPC_TOO_LONG, "a message is at most 1 MiB", NULL, "invalid"), NULL);
            break;
        }
    }
}

static void receive(struct client *client)
{
    char bytes[READ_BYTES];
    ssize_t got = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got < 0) {
        client->dead = true;
        return;
    }
    if (got == 0) {
        client->eof = true;
        bytes[got++] = '\n';    /* the last message need not end its line */
    }
    if (zc_rpc_reader_feed(&client->reader, bytes, (size_t)got) != 0)
        client->dead = true;
}

/* A client that shut down its sending half is still served; one that has closed is not, but read(2) cannot tell them apart. */
static bool hung_up(const struct client *client)
{
    struct pollfd poll_fd = { .fd = client->fd };
    return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLHUP | POLLERR | POLLNVAL);
}

static void on_client(void *arg, int events)
{
    struct client *client = arg;
    if (events & LOOP_WRITE)
        output_flush(client);
    if (events & LOOP_READ && !client->dead && !client->pending && !client->eof) {
        receive(client);
        handle_messages(client);
        if (client->eof && hung_up(client))
            client->dead = true;
    }
    client_settle(client);
}

static void client_destroy(struct client *client)
{
    struct control *control = client->control;
    while (client->calls) {
        struct call *call = client->calls;
        if (call->gone)
            call->gone(call->gone_arg);
        call_destroy(call);
    }
    *client->link = client->next;
    if (client->next)
        client->next->link = client->link;
    control->client_count--;
    loop_timer_destroy(client->again);
    loop_io_destroy(client->io);
    close(client->fd);
    zc_rpc_reader_destroy(&client->reader);
    free(client->output);
    free(client);
    if (control->draining && !control->clients && control->drained) {
        void (*drained)(void *arg) = control->drained;
        control->drained = NULL;
        drained(control->drained_arg);
    }
}

static void on_again(void *arg)
{
    struct client *client = arg;
    if (client->dead) {
        client_destroy(client);
        return;
    }
    if (client->pending)
        handle_messages(client);
    if (client->eof && !client->pending && hung_up(client))
        client->dead = true;
    client_settle(client);
}

/* ---- clients */

/* After anything that happened to a client: watch for what it needs next. */
static void client_settle(struct client *client)
{
    bool over = (client->eof || client->control->draining) && !client->pending && !client->calls && output_empty(client);
    if (client->dead || over) {
        client->dead = true;
        loop_io_set(client->io, 0);
        loop_timer_start(client->again, 0., 0.);
        return;
    }
    bool reading = !client->eof && !client->pending && !client->control->draining;
    loop_io_set(client->io, (reading ? LOOP_READ : 0) | (output_empty(client) ? 0 : LOOP_WRITE));
    if (client->pending)
        loop_timer_start(client->again, 0., 0.);
    else if (client->eof)
        loop_timer_start(client->again, HANG_UP_CHECK_S, 0.);
}

/* The line fits into the socket's empty buffer; a client that cannot take it learns from the closing. */
static int refuse(struct control *control, int fd)
{
    char message[96];
    size_t length = 0;
    uint64_t now_ns = zc_now_ns();
    snprintf(message, sizeof message, "%zu control clients are connected already (max_clients)", control->client_count);
    if (control->refused++ == 0 || now_ns - control->refusal_logged_ns > REFUSALS_LOGGED_NS) {
        control->refusal_logged_ns = now_ns;
        log_warning("refused a control client: %s", message);
    }
    json_t *reply = zc_rpc_error_reply(NULL, ZC_RPC_BUSY, message, NULL, "busy");
    char *line = reply ? zc_rpc_encode(reply, &length) : NULL;
    if (line && send(fd, line, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("a refused control client was not told: %s", strerror(errno));
    free(line);
    json_decref(reply);
    close(fd);
    return -EBUSY;
}

int control_adopt(struct control *control, int fd)
{
    if (control->max_clients && control->client_count >= control->max_clients)
        return refuse(control, fd);
    struct client *client = calloc(1, sizeof *client);
    if (!client) {
        close(fd);
        return -ENOMEM;
    }
    client->control = control;
    client->fd = fd;
    zc_rpc_reader_init(&client->reader);
    if (control_user_of(fd, control->group, &client->user) != 0 || loop_io_create(control->loop, fd, LOOP_READ, on_client, client, &client->io) != 0
        || loop_timer_create(control->loop, on_again, client, &client->again) != 0) {
        loop_io_destroy(client->io);
        zc_rpc_reader_destroy(&client->reader);
        free(client);
        close(fd);
        return -ENOMEM;
    }
    client->next = control->clients;
    client->link = &control->clients;
    if (client->next)
        client->next->link = &client->next;
    control->clients = client;
    control->client_count++;
    return 0;
}

size_t control_clients(const struct control *control)
{
    return control->client_count;
}

uint64_t control_refused(const struct control *control)
{
    return control->refused;
}

void control_set_max_clients(struct control *control, size_t max_clients)
{
    control->max_clients = max_clients;
}

/* ---- the socket */

static void on_listener(void *arg, int events)
{
    struct control *control = arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(control->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            control_adopt(control, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            log_error("cannot accept a control client: %s", strerror(errno));
            loop_io_set(control->listener, 0);      /* it stays readable: do not spin */
            loop_timer_start(control->accept_again, ACCEPT_PAUSE_S, 0.);
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void on_accept_again(void *arg)
{
    struct control *control = arg;
    if (control->listener)
        loop_io_set(control->listener, LOOP_READ);
}

int control_create(const struct control_params *params, struct control **control, struct zc_error *err)
{
    struct control *created = calloc(1, sizeof *created);
    if (!created)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "control socket: out of memory");
    created->loop = params->loop;
    created->handle = params->handle;
    created->arg = params->arg;
    created->max_clients = params->max_clients;
    created->group = control_group(params->access.group);
    created->socket.fd = created->socket.lock_fd = -1;
    int failed = 0;
    if (params->listen_fd > 0)
        created->socket = (struct control_socket){ .fd = params->listen_fd, .lock_fd = -1, .given = true };
    else if (params->path)
        failed = control_socket_open(params->path, &params->access, &created->socket, err);
    if (!failed && created->socket.fd >= 0
        && (loop_timer_create(created->loop, on_accept_again, created, &created->accept_again) != 0
            || loop_io_create(created->loop, created->socket.fd, LOOP_READ, on_listener, created, &created->listener) != 0))
        failed = zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "control socket: out of memory");
    if (failed) {
        control_destroy(created);
        return failed;
    }
    *control = created;
    return 0;
}

void control_drain(struct control *control, void (*drained)(void *arg), void *arg)
{
    control->draining = true;
    control->drained = drained;
    control->drained_arg = arg;
    loop_io_destroy(control->listener);
    control->listener = NULL;
    if (!control->clients && drained) {
        control->drained = NULL;
        drained(arg);
        return;
    }
    for (struct client *client = control->clients; client; client = client->next)
        client_settle(client);
}

void control_destroy(struct control *control)
{
    if (!control)
        return;
    control->drained = NULL;
    while (control->clients)
        client_destroy(control->clients);
    loop_io_destroy(control->listener);
    loop_timer_destroy(control->accept_again);
    control_socket_close(&control->socket);
    free(control);
}
