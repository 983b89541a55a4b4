/* The listening Unix socket and the lock beside it. Used by control.c. */
#ifndef ZC_DAEMON_CONTROL_SOCKET_H
#define ZC_DAEMON_CONTROL_SOCKET_H

#include <limits.h>

#include "error.h"

struct control_socket {
    char path[PATH_MAX], lock_path[PATH_MAX];
    int fd, lock_fd;            /* -1: none */
};

/* See control_create(). On failure nothing is left behind. */
int control_socket_open(const char *path, struct control_socket *socket, struct zc_error *err);
/* Removes both files. Harmless on one that was never opened (fds -1). */
void control_socket_close(struct control_socket *socket);

#endif
