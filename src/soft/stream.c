/* Sockets and addresses: TCP between hosts, abstract Unix sockets on one host (both belong to the network namespace, so a
 * name means the same wherever a port means the same, and nothing is left behind in the file system). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "soft.h"

/* --- descriptors, so that a forked child can close them: a copy would hide the parent's death from its peers --------- */

#define FD_MAX (1u << 20)
static uint8_t tracked[FD_MAX / 8];

void zs_fd_track(int fd)
{
    if (fd >= 0 && (unsigned int)fd < FD_MAX)
        tracked[fd / 8] |= (uint8_t)(1u << (fd % 8));
}

void zs_fd_untrack(int fd)
{
    if (fd >= 0 && (unsigned int)fd < FD_MAX)
        tracked[fd / 8] &= (uint8_t)~(1u << (fd % 8));
}

void zs_fds_close_in_child(void)
{
    for (unsigned int i = 0; i < sizeof tracked; i++)
        for (unsigned int b = 0; tracked[i] && b < 8; b++)
            if (tracked[i] & (1u << b))
                close((int)(i * 8 + b));
    memset(tracked, 0, sizeof tracked);
}

/* --- addresses ------------------------------------------------------------------------------------------------------------ */

bool zs_addr_is_v4(const uint8_t ip[16])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(ip, prefix, sizeof prefix) == 0;
}

bool zs_addr_is_any(const uint8_t ip[16])
{
    static const uint8_t zero[16];
    return memcmp(ip, zero, 16) == 0 || (zs_addr_is_v4(ip) && memcmp(ip + 12, zero, 4) == 0);
}

bool zs_addr_is_local(const uint8_t ip[16])
{
    union ibv_gid gid;
    uint32_t index;
    memcpy(gid.raw, ip, 16);
    return zs_gid_find(&gid, &index) || (zs_addr_is_v4(ip) && ip[12] == 127);
}

static socklen_t to_sockaddr(struct sockaddr_storage *s, const struct zs_addr *a, uint16_t port)
{
    memset(s, 0, sizeof *s);
    if (zs_addr_is_v4(a->ip)) {
        struct sockaddr_in *in = (struct sockaddr_in *)s;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, a->ip + 12, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)s;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    in6->sin6_scope_id = a->scope;
    memcpy(&in6->sin6_addr, a->ip, 16);
    return sizeof *in6;
}

void zs_unix_name(char to[64], const char *what, uint16_t port)
{
    snprintf(to, 64, "zcsoft/%s/%u", what, port);
}

static socklen_t to_sockaddr_un(struct sockaddr_un *u, const char *name)
{
    size_t n = strnlen(name, sizeof u->sun_path - 2);
    memset(u, 0, sizeof *u);
    u->sun_family = AF_UNIX;
    memcpy(u->sun_path + 1, name, n); /* a leading zero: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* --- connecting and listening ------------------------------------------------------------------------------------------------ */

static int connect_unix(const char *name)
{
    struct sockaddr_un u;
    socklen_t len = to_sockaddr_un(&u, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&u, len) < 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    return fd;
}

static int connect_tcp(const struct zs_addr *to, uint16_t port)
{
    struct sockaddr_storage s;
    socklen_t len = to_sockaddr(&s, to, port);
    int one = 1;
    int fd = socket(s.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&s, len) < 0 && errno != EINPROGRESS) {
        int e = errno;
        close(fd);
        return -e;
    }
    return fd;
}

/* On one host the Unix socket is asked first; a full backlog there (EAGAIN) is no refusal, and TCP queues. */
int zs_stream_connect(const struct zs_addr *to, uint16_t port, const char *unix_name, bool *local)
{
    *local = false;
    if (unix_name && !zs_dev.no_unix && zs_addr_is_local(to->ip)) {
        int fd = connect_unix(unix_name);
        if (fd >= 0)
            *local = true;
        if (fd != -EAGAIN)
            return fd;
    }
    return connect_tcp(to, port);
}

int zs_unix_listen(const char *name, int backlog)
{
    struct sockaddr_un u;
    socklen_t len = to_sockaddr_un(&u, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&u, len) < 0 || (backlog && listen(fd, backlog) < 0)) {
        int e = errno;
        close(fd);
        return -e;
    }
    return fd;
}

static int tcp_bind(int family, const struct zs_addr *at, uint16_t port, bool any)
{
    struct sockaddr_storage s;
    socklen_t len = to_sockaddr(&s, at, port);
    int off = 0, one = 1;
    if (any && family == AF_INET) { /* a machine without IPv6 */
        struct zs_addr v4 = {.ip = {[10] = 0xff, [11] = 0xff}};
        len = to_sockaddr(&s, &v4, port);
    }
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (family == AF_INET6 && any)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* past connections in TIME_WAIT do not hold the port */
    if (bind(fd, (struct sockaddr *)&s, len) < 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    return fd;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage s;
    socklen_t len = sizeof s;
    if (getsockname(fd, (struct sockaddr *)&s, &len) < 0)
        return 0;
    return s.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&s)->sin_port) : ntohs(((struct sockaddr_in6 *)&s)->sin6_port);
}

int zs_tcp_listen(const struct zs_addr *at, uint16_t *port, int backlog)
{
    bool any = zs_addr_is_any(at->ip);
    bool v4 = zs_addr_is_v4(at->ip);
    int fd = tcp_bind(v4 ? AF_INET : AF_INET6, at, *port, any);
    if (fd < 0 && !v4 && any && fd != -EADDRINUSE && fd != -EACCES)
        fd = tcp_bind(AF_INET, at, *port, any);
    if (fd < 0)
        return fd;
    if (backlog && listen(fd, backlog) < 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    *port = bound_port(fd);
    return fd;
}

/* --- hello ----------------------------------------------------------------------------------------------------------------------- */

void zs_hello_fill(struct zs_hello *h, enum zs_kind kind)
{
    *h = (struct zs_hello){.magic = ZS_MAGIC,
                           .version = ZS_WIRE_VERSION,
                           .kind = (uint8_t)kind,
                           .pid = (uint32_t)getpid(),
                           .instance = zs_dev.instance};
    if (kind == ZS_KIND_LINK)
        zs_direct_hello(h);
}

bool zs_hello_valid(const struct zs_hello *h)
{
    return h->magic == ZS_MAGIC && h->version == ZS_WIRE_VERSION && (h->kind == ZS_KIND_LINK || h->kind == ZS_KIND_CM);
}
