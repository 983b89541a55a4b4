/* One connection to the daemon's control socket: JSON-RPC calls, replies and notifications, by proto/rpc. Blocking with poll(2) and
 * deadlines; one owner thread. */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

#include <jansson.h>
#include <stdint.h>

#include "error.h"

struct client;

enum client_status {
    CLIENT_OK,
    CLIENT_REFUSED,     /* the daemon answered with an error */
    CLIENT_LOST,        /* there is no daemon, it went away or does not answer */
    CLIENT_WOKEN,       /* client_receive() only: wake_fd is readable */
};

enum { CLIENT_TIMEOUT_MS = 30000 };     /* for answers that a daemon gives at once */

/* CLIENT_OK or CLIENT_LOST. *client is the caller's: client_close(). */
enum client_status client_open(const char *path, struct client **client, struct zc_error *err);
void client_close(struct client *client);   /* NULL is allowed */

/* Send a request; params is stolen and may be NULL. *id is what its reply will carry. */
enum client_status client_send(struct client *client, const char *method, json_t *params, int64_t *id, struct zc_error *err);

/* Wait for the next message. timeout_ms -1: for ever; wake_fd -1: none. *message is a new reference. */
enum client_status client_receive(struct client *client, int wake_fd, int timeout_ms, json_t **message, struct zc_error *err);

/* Is `message` the reply to `id`? Then CLIENT_OK with *result borrowed from it (NULL for a null reply), or CLIENT_REFUSED with the
 * daemon's error. CLIENT_WOKEN: it is something else. */
enum client_status client_reply(const json_t *message, int64_t id, json_t **result, struct zc_error *err);

/* Send, wait for the reply, drop everything else. *result is a new reference. */
enum client_status client_call(struct client *client, const char *method, json_t *params, json_t **result, struct zc_error *err);

#endif
