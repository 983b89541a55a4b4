/* The port space of rdma_cm. On one host a port is an abstract Unix socket, so it never conflicts with the TCP port of
 * the same number that an application may use for its own exchange; for other hosts a TCP socket is bound as well, as
 * far as the port is free. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm.h"

#define FIRST_PORT 32768u
#define PORTS 28000u

static struct zs_list listeners = {&listeners, &listeners};
static struct zs_list bound = {&bound, &bound};

/* The address is part of the name; "4" and "6" stand for the wildcards. */
static void port_name(char to[64], const char *addr, uint16_t port)
{
    snprintf(to, 64, "zcsoft/cm/%s/%u", addr, port);
}

static void addr_name(char to[40], const uint8_t ip[16])
{
    for (int i = 0; i < 16; i++)
        snprintf(to + 2 * i, 3, "%02x", ip[i]);
}

static void own_name(char to[64], const struct zs_id *id)
{
    char addr[40];
    if (zs_addr_is_any(id->src.ip))
        snprintf(addr, sizeof addr, "%c", zs_addr_is_v4(id->src.ip) ? '4' : '6');
    else
        addr_name(addr, id->src.ip);
    port_name(to, addr, id->src_port);
}

/* --- binding --------------------------------------------------------------------------------------------------------------- */

static void source_init(struct zs_source *s)
{
    s->fd = -1;
    s->dead = true;
}

static void drop_names(struct zs_cm_port *p)
{
    if (p->has_local)
        close(p->local.fd);
    if (p->has_local_v4)
        close(p->local_v4.fd);
    p->has_local = p->has_local_v4 = false;
}

static void port_free(struct zs_cm_port *p)
{
    if (p->has_tcp)
        close(p->tcp.fd);
    drop_names(p);
    free(p);
}

static bool one_family(const struct zs_id *id)
{
    return id->afonly || zs_addr_is_v4(id->src.ip);
}

/* Whether the port may be shared with the ids of this process that have it, by the kernel's rule: ids that are both to be
 * reused share it; a wildcard overlaps every address, unless both sides keep to their own family. */
static int conflict_here(const struct zs_id *id, bool reuse)
{
    for (struct zs_list *l = bound.next; l != &bound; l = l->next) {
        const struct zs_id *other = zs_container(l, struct zs_cm_port, bound)->id;
        if (other == id || other->src_port != id->src_port || (reuse && other->reuse))
            continue;
        if (one_family(id) && one_family(other) && zs_addr_is_v4(id->src.ip) != zs_addr_is_v4(other->src.ip))
            continue;
        if (zs_addr_is_any(id->src.ip) || zs_addr_is_any(other->src.ip))
            return EADDRNOTAVAIL;
        if (memcmp(id->src.ip, other->src.ip, sizeof id->src.ip) == 0)
            return EADDRINUSE;
    }
    return 0;
}

static bool name_taken(const char *addr, uint16_t port)
{
    char name[64];
    port_name(name, addr, port);
    int fd = zs_unix_listen(name, 0);
    if (fd >= 0)
        close(fd);
    return fd == -EADDRINUSE;
}

/* The same among the processes of this host, as far as names tell: against a specific address the wildcards, against a
 * wildcard every address there is. */
static int conflict_elsewhere(const struct zs_id *id)
{
    const struct zs_gid *gids;
    bool v4 = zs_addr_is_v4(id->src.ip);
    if (!zs_addr_is_any(id->src.ip))
        return name_taken(v4 ? "4" : "6", id->src_port) ? EADDRNOTAVAIL : 0;
    int n = zs_gids(&gids);
    for (int i = 0; i < n; i++) {
        char addr[40];
        bool gid_v4 = zs_addr_is_v4(gids[i].gid.raw);
        addr_name(addr, gids[i].gid.raw);
        if ((v4 ? gid_v4 : !gid_v4 || !id->afonly) && name_taken(addr, id->src_port))
            return EADDRNOTAVAIL;
    }
    return 0;
}

static bool bind_local(struct zs_source *s, const char *name, int *error)
{
    int fd = zs_unix_listen(name, 0);
    if (fd < 0) {
        *error = -fd;
        return false;
    }
    s->fd = fd;
    return true;
}

static int reserve(struct zs_id *id, struct zs_cm_port *p)
{
    char name[64];
    int e = conflict_elsewhere(id);
    own_name(name, id);
    if (!e)
        p->has_local = bind_local(&p->local, name, &e);
    if (e)
        return e;
    if (zs_addr_is_any(id->src.ip) && !zs_addr_is_v4(id->src.ip) && !id->afonly) {
        port_name(name, "4", id->src_port);
        p->has_local_v4 = bind_local(&p->local_v4, name, &e);
    }
    return e;
}

static struct zs_cm_port *port_new(void)
{
    struct zs_cm_port *p = calloc(1, sizeof *p);
    if (p) {
        source_init(&p->tcp);
        source_init(&p->local);
        source_init(&p->local_v4);
        zs_list_init(&p->all);
        zs_list_init(&p->bound);
    }
    return p;
}

static int bind_once(struct zs_id *id)
{
    struct zs_cm_port *p = port_new();
    uint16_t port = id->src_port;
    if (!p)
        return ENOMEM;
    int fd = zs_tcp_listen(&id->src, &port, 0);
    if (fd >= 0) {
        p->tcp.fd = fd;
        p->has_tcp = true;
        id->src_port = port;
    } else if (fd != -EADDRINUSE || !id->src_port) {
        port_free(p);
        return -fd;
    }
    int e = conflict_here(id, id->reuse);
    if (!e)
        e = reserve(id, p);
    if (e) {
        port_free(p);
        return e;
    }
    if (id->reuse) /* others may have it too, in other processes as well: only whoever listens keeps the names */
        drop_names(p);
    p->id = id;
    id->port = p;
    zs_list_add(&bound, &p->bound);
    return 0;
}

int zs_cm_bind(struct zs_id *id)
{
    bool any = !id->src_port;
    int e = 0;
    for (int i = 0; i < 64; i++) {
        e = bind_once(id);
        if ((e != EADDRINUSE && e != EADDRNOTAVAIL) || !any)
            return e;
        id->src_port = 0; /* taken in one of the two spaces: another one */
    }
    return e;
}

/* A source port for ids that only connect: nobody connects to it, so it need not be reserved. */
uint16_t zs_cm_any_port(void)
{
    static uint32_t next;
    if (!next)
        next = (uint32_t)zs_now_ns() ^ (uint32_t)getpid();
    return (uint16_t)(FIRST_PORT + next++ % PORTS);
}

/* --- listening ---------------------------------------------------------------------------------------------------------------- */

static void tcp_ready(struct zs_source *s, uint32_t events)
{
    (void)events;
    zs_stream_accept(s->fd, false);
}

static void local_ready(struct zs_source *s, uint32_t events)
{
    (void)events;
    zs_stream_accept(s->fd, true);
}

static int start(struct zs_source *s, void (*ready)(struct zs_source *, uint32_t))
{
    if (listen(s->fd, 4096) < 0)
        return errno;
    s->ready = ready;
    return zs_source_add(s, EPOLLIN);
}

int zs_cm_listen(struct zs_id *id, int backlog)
{
    struct zs_cm_port *p = id->port;
    int e = conflict_here(id, false);
    if (!e && !p->has_local)
        e = reserve(id, p);
    if (!e)
        e = start(&p->local, local_ready);
    if (!e && p->has_local_v4)
        e = start(&p->local_v4, local_ready);
    if (e)
        return e;
    if (p->has_tcp && start(&p->tcp, tcp_ready)) { /* a TCP program listens there: this host only */
        close(p->tcp.fd);
        source_init(&p->tcp);
        p->has_tcp = false;
    }
    id->reuse = false; /* from here on it is alone */
    p->backlog = backlog > 0 ? backlog : 128;
    p->listening = true;
    zs_list_add(&listeners, &p->all);
    return 0;
}

/* The last of the sources that were in epoll frees the port. */
static void port_release(struct zs_source *s)
{
    (void)s;
}

static void last_release(struct zs_source *s)
{
    free(zs_container(s, struct zs_cm_port, local));
}

void zs_cm_unbind(struct zs_id *id)
{
    struct zs_cm_port *p = id->port;
    id->port = NULL;
    if (!p)
        return;
    zs_list_del(&p->bound);
    if (!p->listening) {
        port_free(p);
        return;
    }
    zs_list_del(&p->all);
    /* released in the reverse order of closing: the source that frees the memory must be closed first */
    p->local.release = last_release;
    p->tcp.release = p->local_v4.release = port_release;
    zs_source_close(&p->local);
    if (p->has_local_v4)
        zs_source_close(&p->local_v4);
    if (p->has_tcp)
        zs_source_close(&p->tcp);
}

/* --- finding ------------------------------------------------------------------------------------------------------------------- */

static bool matches(const struct zs_id *id, const struct zs_cm_msg *req, bool wildcard)
{
    if (id->state != CM_LISTEN || id->src_port != req->dst_port)
        return false;
    if (!wildcard)
        return memcmp(id->src.ip, req->dst_addr, 16) == 0;
    if (!zs_addr_is_any(id->src.ip))
        return false;
    bool to_v4 = zs_addr_is_v4(req->dst_addr);
    return zs_addr_is_v4(id->src.ip) ? to_v4 : !to_v4 || !id->afonly;
}

struct zs_id *zs_cm_find_listener(const struct zs_cm_msg *req)
{
    for (int wildcard = 0; wildcard < 2; wildcard++)
        for (struct zs_list *l = listeners.next; l != &listeners; l = l->next) {
            struct zs_id *id = zs_container(l, struct zs_cm_port, all)->id;
            if (matches(id, req, wildcard))
                return id;
        }
    return NULL;
}

/* --- connecting ---------------------------------------------------------------------------------------------------------------- */

/* On this host: the exact address, then the wildcards. A name nobody listens on says nothing about TCP on this host
 * either: another host's address may be ours in another namespace only, so the answer is final. */
int zs_cm_dial(const struct zs_addr *to, uint16_t port, bool *local)
{
    char addr[40], name[64];
    if (!zs_addr_is_local(to->ip) || zs_dev.no_unix)
        return zs_stream_connect(to, port, NULL, local);
    addr_name(addr, to->ip);
    const char *tries[] = {addr, zs_addr_is_v4(to->ip) ? "4" : "6", "6"};
    int fd = -ECONNREFUSED;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && fd < 0; i++) {
        port_name(name, tries[i], port);
        fd = zs_stream_connect(to, port, name, local);
    }
    return fd;
}
