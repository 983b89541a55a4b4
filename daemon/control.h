/* The control socket: clients, framing, replies. Knows JSON-RPC (proto/rpc.h) but no method: every well-formed request is handed
 * to one function as a `call`, which is answered exactly once, at once or later. All of it belongs to the main thread and
 * never blocks. */
#ifndef ZC_DAEMON_CONTROL_H
#define ZC_DAEMON_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control_socket.h"
#include "error.h"
#include "loop.h"
#include "rpc.h"

enum {
    CONTROL_MESSAGES_A_TURN = 4,            /* of one client, so that none starves the others */
    CONTROL_CALLS_MAX = 64,                 /* unanswered requests of one client; more are refused as busy */
    CONTROL_OUTPUT_HIGH_BYTES = 4 << 20,    /* a client with more unread replies than this is disconnected */
    CONTROL_OUTPUT_LOW_BYTES = 64 << 10,    /* above it, progress is not sent: it would be stale anyway */
};

struct control;
struct call;

struct control_params {
    struct loop *loop;
    const char *path;           /* of the socket; NULL: no socket, only control_adopt() */
    int listen_fd;              /* > 0: systemd listens on `path` already, with this; it is taken over */
    struct control_access access;
    size_t max_clients;         /* more are told so and closed; 0: no limit */
    void (*handle)(void *arg, struct call *call);
    void *arg;
};

/* Lock PATH.lock, make the folder (0755) if it is missing, replace a stale socket, listen. ZC_ERR_BUSY: another daemon has that
 * socket. With listen_fd nothing of that: only accept. */
int control_create(const struct control_params *params, struct control **control, struct zc_error *err);
/* Drops clients, removes socket and lock; NULL is allowed. */
void control_destroy(struct control *control);

/* A connected stream socket becomes a client; the fd is taken over, also on failure. 0 or a negative errno; -EBUSY: there are
 * max_clients, and the client has been told. */
int control_adopt(struct control *control, int fd);
size_t control_clients(const struct control *control);
uint64_t control_refused(const struct control *control);    /* ever, because of the limit */
void control_set_max_clients(struct control *control, size_t max_clients);  /* for those who come */

/* Stop listening and reading; clients are closed as soon as their calls are answered and their replies sent. `drained` is called
 * (perhaps from within) when none is left. */
void control_drain(struct control *control, void (*drained)(void *arg), void *arg);

/* ---- a call: one request, or notification, of a client. It lives until it is answered, or its client has gone. */
const char *call_method(const struct call *call);
const json_t *call_params(const struct call *call);     /* an object, or NULL */
const struct control_user *call_user(const struct call *call);      /* whose client */

/* Answer, once; the call is gone afterwards. `result` is stolen; NULL means that there was no memory for it. A notification is
 * never answered: the same calls just end it. */
void call_reply(struct call *call, json_t *result);
void call_fail(struct call *call, const struct zc_error *err);
void call_fail_code(struct call *call, enum zc_rpc_code code, const char *message, const char *field, const char *kind);

/* A notification to the call's client; `params` is stolen. Dropped when the client is behind in reading. */
void call_notify(struct call *call, const char *method, json_t *params);

/* Whoever keeps a call to answer it later is told when its client has gone: from then on it must not touch the call. */
void call_on_gone(struct call *call, void (*gone)(void *arg), void *arg);

#endif
