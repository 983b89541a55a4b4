/* Names to addresses with a deadline: getaddrinfo(3) has none of its own. Private to src/. */
#ifndef ZC_RESOLVE_H
#define ZC_RESOLVE_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum { ZC_RESOLVE_MAX = 8 };

struct zc_addresses {
    size_t count;                                   /* at least 1 on success */
    struct sockaddr_storage list[ZC_RESOLVE_MAX];   /* in getaddrinfo's order of preference, the port set */
};

/* Resolve `host` (name or numeric), waiting until deadline_ns (CLOCK_MONOTONIC) at most or until cancel_fd (-1: none) is readable.
 * 0, -ETIMEDOUT or -ECANCELED without err (the caller knows what it waited for), or another errno with err filled. */
int zc_resolve(const char *host, uint16_t port, uint64_t deadline_ns, int cancel_fd, struct zc_addresses *addresses,
               struct zc_error *err);

/* poll(2) one descriptor beside cancel_fd until the deadline: 0 it is readable, -ETIMEDOUT, -ECANCELED or another errno. */
int zc_wait_readable(int fd, int cancel_fd, uint64_t deadline_ns);

#endif
