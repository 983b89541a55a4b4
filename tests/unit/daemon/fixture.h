/* A control server on a socket pair with its loop in the test's own thread: the test writes, lets the loop turn, reads. */
#ifndef ZC_TEST_DAEMON_FIXTURE_H
#define ZC_TEST_DAEMON_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "control.h"

struct peer {
    int fd;
    char text[1 << 16];
    size_t length;
};

static struct loop *loop;
static struct loop_timer *until;

static inline void on_until(void *arg)
{
    loop_stop(arg);
}

/* Let the loop turn for a while. */
static inline void turn(double seconds)
{
    loop_timer_start(until, seconds, 0.);
    loop_run(loop);
}

static inline void fixture_open(void)
{
    assert_int_equal(loop_create(&loop), 0);
    assert_int_equal(loop_timer_create(loop, on_until, loop, &until), 0);
}

static inline void fixture_close(void)
{
    loop_timer_destroy(until);
    loop_destroy(loop);
}

static inline void peer_open(struct peer *peer, struct control *control)
{
    int fds[2];
    memset(peer, 0, sizeof *peer);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    peer->fd = fds[0];
    assert_int_equal(control_adopt(control, fds[1]), 0);
}

static inline void peer_send(struct peer *peer, const char *text)
{
    assert_int_equal(send(peer->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* The next line that has come, as JSON: a new reference; NULL if there is none. */
static inline json_t *peer_receive(struct peer *peer)
{
    char *newline;
    while (!(newline = memchr(peer->text, '\n', peer->length))) {
        ssize_t got = recv(peer->fd, peer->text + peer->length, sizeof peer->text - peer->length, 0);
        if (got <= 0)
            return NULL;
        peer->length += (size_t)got;
    }
    size_t line = (size_t)(newline - peer->text);
    json_t *message = json_loadb(peer->text, line, 0, NULL);
    assert_non_null(message);
    peer->length -= line + 1;
    memmove(peer->text, newline + 1, peer->length);
    return message;
}

/* True if the daemon has closed the connection, and everything was read. */
static inline int peer_closed(struct peer *peer)
{
    char byte;
    return peer->length == 0 && recv(peer->fd, &byte, 1, MSG_PEEK) == 0;
}

static inline json_int_t error_code(const json_t *message)
{
    return json_integer_value(json_object_get(json_object_get(message, "error"), "code"));
}

static inline const char *error_field(const json_t *message)
{
    const char *field = json_string_value(json_object_get(json_object_get(json_object_get(message, "error"), "data"), "field"));
    return field ? field : "";
}

#endif
