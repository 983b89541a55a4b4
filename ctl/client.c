/* See client.h. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "rpc.h"

enum { REFUSAL_TIMEOUT_MS = 1000 };     /* it was sent before the connection was closed */

struct client {
    int fd;
    int64_t last_id;
    struct zc_rpc_reader reader;
};

static enum client_status unreachable(const char *path, int errnum, struct zc_error *err)
{
    const char *hint = "";

    if (errnum == ENOENT || errnum == ECONNREFUSED || errnum == ENOTDIR)
        hint = " (is it running? systemctl start zcrdmad)";
    else if (errnum == EACCES || errnum == EPERM)
        hint = " (only root and members of the group zcrdma may talk to it)";
    zc_error_set(err, ZC_ERR_DENIED, errnum, NULL, "cannot reach zcrdmad at %s: %s%s", path, strerror(errnum), hint);
    return CLIENT_LOST;
}

enum client_status client_open(const char *path, struct client **client, struct zc_error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = CLIENT_TIMEOUT_MS / 1000 };   /* connect(2) waits while the backlog is full */
    struct client *opened;
    int fd, errnum;

    if (strlen(path) >= sizeof(address.sun_path))
        return unreachable(path, ENAMETOOLONG, err);
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return unreachable(path, errno, err);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        errnum = errno == EAGAIN ? ETIMEDOUT : errno;
        close(fd);
        return unreachable(path, errnum, err);
    }
    opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        close(fd);
        return unreachable(path, ENOMEM, err);
    }
    opened->fd = fd;
    zc_rpc_reader_init(&opened->reader);
    opened->reader.limit = ZC_RPC_REPLY_MAX;
    *client = opened;
    return CLIENT_OK;
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    close(client->fd);
    zc_rpc_reader_destroy(&client->reader);
    free(client);
}

static enum client_status lost(const char *why, int errnum, struct zc_error *err)
{
    zc_error_set(err, ZC_ERR_INTERNAL, errnum, NULL, "lost the connection to zcrdmad: %s", why);
    return CLIENT_LOST;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A complete line that is already here. CLIENT_WOKEN: none. */
static enum client_status take_message(struct client *client, json_t **message, struct zc_error *err)
{
    const char *line;
    size_t length;
    json_error_t why;

    switch (zc_rpc_reader_next(&client->reader, &line, &length)) {
    case ZC_RPC_MORE:
        return CLIENT_WOKEN;
    case ZC_RPC_OVERLONG:
        return lost("it sent a message that is too long", EMSGSIZE, err);
    case ZC_RPC_LINE:
        break;
    }
    *message = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);
    return *message != NULL ? CLIENT_OK : lost("it does not speak JSON-RPC", EPROTO, err);
}

static enum client_status read_some(struct client *client, struct zc_error *err)
{
    char bytes[65536];
    ssize_t n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n == 0)
        return lost("it has closed it", ECONNRESET, err);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? CLIENT_OK : lost(strerror(errno), errno, err);
    if (zc_rpc_reader_feed(&client->reader, bytes, (size_t)n) != 0)
        return lost("out of memory", ENOMEM, err);
    return CLIENT_OK;
}

enum client_status client_receive(struct client *client, int wake_fd, int timeout_ms, json_t **message, struct zc_error *err)
{
    int64_t deadline = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;

    for (;;) {
        struct pollfd fds[2] = { { .fd = client->fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
        enum client_status status = take_message(client, message, err);
        int64_t left = deadline - now_ms();

        if (status != CLIENT_WOKEN)
            return status;
        if (left <= 0) {
            zc_error_set(err, ZC_ERR_BUSY, ETIMEDOUT, NULL, "zcrdmad did not answer within %d s", timeout_ms / 1000);
            return CLIENT_LOST;
        }
        if (poll(fds, 2, timeout_ms < 0 ? -1 : (int)left) < 0 && errno != EINTR)
            return lost(strerror(errno), errno, err);
        if (fds[1].revents != 0)
            return CLIENT_WOKEN;
        if (fds[0].revents != 0) {
            status = read_some(client, err);
            if (status != CLIENT_OK)
                return status;
        }
    }
}

enum client_status client_reply(const json_t *message, int64_t id, json_t **result, struct zc_error *err)
{
    const json_t *found = json_object_get(message, "id"), *error = json_object_get(message, "error"), *data;
    const char *text;

    if (json_object_get(message, "method") != NULL)
        return CLIENT_WOKEN;
    /* An error whose id is null answers a request that the daemon could not read: it is ours, no other is being answered. */
    if (!(json_is_integer(found) && json_integer_value(found) == id) && !(json_is_null(found) && error != NULL))
        return CLIENT_WOKEN;
    if (error == NULL) {
        *result = json_object_get(message, "result");
        return CLIENT_OK;
    }
    data = json_object_get(error, "data");
    text = json_string_value(json_object_get(error, "message"));
    zc_error_set(err, zc_error_kind_find(json_string_value(json_object_get(data, "kind"))), 0,
                 json_string_value(json_object_get(data, "field")), "%s", text != NULL ? text : "zcrdmad gave no reason");
    if (json_integer_value(json_object_get(error, "code")) == ZC_RPC_PARAMS)
        err->kind = ZC_ERR_INVALID;
    return CLIENT_REFUSED;
}

/* A daemon that takes no more clients says why before it closes. */
static enum client_status refused_or_lost(struct client *client, int errnum, struct zc_error *err)
{
    json_t *message, *result;
    struct zc_error reason;
    enum client_status status;

    if (client_receive(client, -1, REFUSAL_TIMEOUT_MS, &message, &reason) != CLIENT_OK)
        return lost(strerror(errnum), errnum, err);
    status = client_reply(message, client->last_id, &result, &reason);
    json_decref(message);
    if (status != CLIENT_REFUSED)
        return lost(strerror(errnum), errnum, err);
    *err = reason;
    return CLIENT_REFUSED;
}

enum client_status client_send(struct client *client, const char *method, json_t *params, int64_t *id, struct zc_error *err)
{
    json_t *call = zc_rpc_call(++client->last_id, method, params);
    size_t length, sent = 0;
    char *line = call != NULL ? zc_rpc_encode(call, &length) : NULL;
    int errnum = line != NULL ? 0 : ENOMEM;

    while (errnum == 0 && sent < length) {
        ssize_t n = send(client->fd, line + sent, length - sent, MSG_NOSIGNAL);
        if (n >= 0)
            sent += (size_t)n;
        else if (errno != EINTR)
            errnum = errno;
    }
    free(line);
    json_decref(call);
    if (errnum == EPIPE || errnum == ECONNRESET)
        return refused_or_lost(client, errnum, err);
    if (errnum != 0)
        return lost(strerror(errnum), errnum, err);
    *id = client->last_id;
    return CLIENT_OK;
}

enum client_status client_call(struct client *client, const char *method, json_t *params, json_t **result, struct zc_error *err)
{
    enum client_status status;
    json_t *message, *found = NULL;
    int64_t id;

    status = client_send(client, method, params, &id, err);
    if (status != CLIENT_OK)
        return status;
    do {
        status = client_receive(client, -1, CLIENT_TIMEOUT_MS, &message, err);
        if (status != CLIENT_OK)
            return status;
        status = client_reply(message, id, &found, err);
        if (status == CLIENT_OK)
            *result = json_incref(found);
        json_decref(message);
    } while (status == CLIENT_WOKEN);
    return status;
}
