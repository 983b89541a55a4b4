/* The listening Unix socket and the lock beside it. Used by control.c. */
#ifndef ZC_DAEMON_CONTROL_SOCKET_H
#define ZC_DAEMON_CONTROL_SOCKET_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "error.h"

struct control_socket {
    char path[PATH_MAX], lock_path[PATH_MAX];
    int fd, lock_fd;            /* -1: none */
    bool given;                 /* by systemd: the file is not ours to remove */
};

struct control_access {
    const char *group;          /* NULL: leave the socket to its creator's group */
    mode_t mode;                /* permission bits */
};

/* Who is at the other end, as the kernel says (SO_PEERCRED, SO_PEERGROUPS: unix(7)). */
struct control_user {
    uid_t uid;
    pid_t pid;
    bool administrator;         /* root, or the daemon's own user */
    bool member;                /* that, or a member of the group */
};

/* See control_create(). A group that does not exist, or is not ours to give, leaves group members outside; that is logged. On failure
 * nothing is left behind. */
int control_socket_open(const char *path, const struct control_access *access, struct control_socket *socket, struct zc_error *err);
/* Removes both files. Harmless on one that was never opened (fds -1). */
void control_socket_close(struct control_socket *socket);

/* The group's number; (gid_t)-1 where there is none. */
gid_t control_group(const char *name);
/* 0 or a negative errno. */
int control_user_of(int fd, gid_t group, struct control_user *user);

#endif
