/* The ports that stand in QP numbers, and streams that have not yet said what they are. Anybody may connect to a TCP
 * port: a stream that does not greet within its deadline, or greets with anything else, is closed and costs nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "soft.h"

#define PORTS_MAX (ZS_MAX_QP / 256)
#define BACKLOG 4096
#define HELLO_NS 5000000000u
#define GREETERS_MAX 4096

struct door {
    struct zs_source tcp, local;
    uint16_t port;
};

static struct door doors[PORTS_MAX];
static unsigned int door_count;
static unsigned int greeters;

struct greeter {
    struct zs_source src;
    struct zs_timer timer;
    bool local;
    uint32_t got;
    struct zs_hello hello;
};

static void greeter_release(struct zs_source *s)
{
    free(zs_container(s, struct greeter, src));
    greeters--;
}

static void greeter_drop(struct greeter *g)
{
    zs_timer_clear(&g->timer);
    zs_source_close(&g->src);
}

static void greeter_late(struct zs_timer *t)
{
    greeter_drop(zs_container(t, struct greeter, timer));
}

/* The descriptor moves to its new owner: out of epoll under this source, but not closed. */
static void greeter_hand_over(struct greeter *g)
{
    int fd = dup(g->src.fd); /* a new descriptor: events already fetched for the old one cannot reach the new owner */
    if (fd >= 0 && g->hello.kind == ZS_KIND_LINK)
        zs_link_accept(fd, g->local, &g->hello);
    else if (fd >= 0)
        zs_cm_accept(fd, g->local, &g->hello);
    greeter_drop(g);
}

static void greeter_ready(struct zs_source *s, uint32_t events)
{
    struct greeter *g = zs_container(s, struct greeter, src);
    (void)events;
    while (g->got < sizeof g->hello) {
        ssize_t n = recv(s->fd, (char *)&g->hello + g->got, sizeof g->hello - g->got, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            greeter_drop(g);
            return;
        }
        g->got += (uint32_t)n;
    }
    if (zs_hello_valid(&g->hello))
        greeter_hand_over(g);
    else
        greeter_drop(g);
}

static void greeter_new(int fd, bool local)
{
    struct greeter *g = greeters < GREETERS_MAX ? calloc(1, sizeof *g) : NULL;
    int one = 1;
    if (!g) {
        close(fd);
        return;
    }
    if (!local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    g->local = local;
    g->src.fd = fd;
    g->src.ready = greeter_ready;
    g->src.release = greeter_release;
    zs_list_init(&g->timer.link);
    if (zs_source_add(&g->src, EPOLLIN)) {
        close(fd);
        free(g);
        return;
    }
    greeters++;
    zs_timer_set(&g->timer, zs_now_ns() + HELLO_NS, greeter_late);
}

void zs_stream_accept(int listen_fd, bool local)
{
    for (int i = 0; i < 64; i++) { /* a bounded number a turn: the data path goes on under a storm of connections */
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        greeter_new(fd, local);
    }
}

/* --- doors -------------------------------------------------------------------------------------------------------------------- */

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

static void bind_address(struct zs_addr *a)
{
    const char *chosen = zs_env_addr();
    struct in_addr v4;
    memset(a, 0, sizeof *a);
    if (chosen && inet_pton(AF_INET, chosen, &v4) == 1) {
        a->ip[10] = a->ip[11] = 0xff;
        memcpy(a->ip + 12, &v4, 4);
    } else if (chosen) {
        inet_pton(AF_INET6, chosen, a->ip);
    }
}

static bool door_open(struct door *d)
{
    struct zs_addr at;
    char name[64];
    bind_address(&at);
    d->port = 0;
    d->tcp.fd = zs_tcp_listen(&at, &d->port, BACKLOG);
    if (d->tcp.fd < 0) {
        errno = -d->tcp.fd;
        return false;
    }
    zs_unix_name(name, "qp", d->port);
    d->local.fd = zs_unix_listen(name, BACKLOG);
    d->tcp.ready = tcp_ready;
    d->local.ready = local_ready;
    int e = d->local.fd < 0 ? -d->local.fd : zs_source_add(&d->tcp, EPOLLIN);
    if (!e)
        e = zs_source_add(&d->local, EPOLLIN);
    if (e) {
        close(d->tcp.fd);
        if (d->local.fd >= 0)
            close(d->local.fd);
        errno = e;
        return false;
    }
    return true;
}

int zs_listen_start(void)
{
    return zs_listen_port(0) ? 0 : errno;
}

uint16_t zs_listen_port(unsigned int index)
{
    if (index < door_count)
        return doors[index].port;
    if (index > door_count || index >= PORTS_MAX || !door_open(&doors[index]))
        return 0;
    return doors[door_count++].port;
}

bool zs_is_our_port(uint16_t port)
{
    for (unsigned int i = 0; i < door_count; i++)
        if (doors[i].port == port)
            return true;
    return false;
}
