/* Links: one stream for all requests of this process to another one's port, and the answers coming back on it; and the
 * mirror image, streams on which others ask us. Nothing blocks; what a socket does not take is kept in a buffer, and
 * queue pairs wait their turn while it is full. Device thread or control calls, dev.lock held. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "model.h"

#define TX_SIZE 262144u
#define TX_ROOM 65536u   /* more than this waiting: no new frames */
#define COPY_BELOW 8192u /* smaller payloads are gathered into one write at the end of the turn */
#define RX_SIZE 16384u
#define CONNECT_NS 10000000000u

/* --- life ---------------------------------------------------------------------------------------------------------------------- */

static void link_release(struct zs_source *s)
{
    struct zs_link *l = zs_container(s, struct zs_link, src);
    free(l->tx);
    free(l->rx);
    free(l);
}

static void forget_place(struct zs_link *l, const struct zs_qp *qp)
{
    if (l->place_qp == qp) {
        l->place = ZS_PLACE_NONE;
        l->place_qp = NULL;
    }
}

static void wake_waiting(struct zs_link *l)
{
    while (!zs_list_empty(&l->waiting)) {
        struct zs_qp *qp = zs_container(l->waiting.next, struct zs_qp, ready_link);
        zs_list_del(&qp->ready_link);
        zs_ready(qp);
    }
}

static void link_down(struct zs_link *l)
{
    zs_timer_clear(&l->timer);
    zs_list_del(&l->all);
    zs_list_del(&l->dirty_link);
    zs_list_del(&l->more_link);
    wake_waiting(l);
    while (!zs_list_empty(&l->qps)) {
        struct zs_list *first = l->qps.next;
        zs_list_del(first);
        if (l->outgoing) {
            struct zs_qp *qp = zs_container(first, struct zs_qp, link_qps);
            qp->link = NULL;
            zs_requester_link_lost(qp);
        } else {
            struct zs_qp *qp = zs_container(first, struct zs_qp, rlink_qps);
            qp->rlink = NULL;
            qp->ans_head = qp->ans_tail;
            qp->ack_due = false;
            qp->nak_code = ZS_NAK_NONE;
        }
    }
    zs_source_close(&l->src);
}

static void link_late(struct zs_timer *t)
{
    link_down(zs_container(t, struct zs_link, timer));
}

static void link_ready(struct zs_source *s, uint32_t events);

static struct zs_link *link_new(int fd, bool outgoing, bool local)
{
    struct zs_link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->tx = malloc(TX_SIZE);
    l->rx = malloc(RX_SIZE);
    l->src.fd = fd;
    l->src.ready = link_ready;
    l->src.answers = outgoing;
    l->src.release = link_release;
    l->outgoing = outgoing;
    l->local = local;
    l->state = outgoing && !local ? ZS_LINK_CONNECTING : ZS_LINK_UP;
    zs_list_init(&l->qps);
    zs_list_init(&l->waiting);
    zs_list_init(&l->dirty_link);
    zs_list_init(&l->more_link);
    zs_list_init(&l->timer.link);
    if (!l->tx || !l->rx || zs_source_add(&l->src, l->state == ZS_LINK_UP ? EPOLLIN : EPOLLOUT)) {
        free(l->tx);
        free(l->rx);
        free(l);
        return NULL;
    }
    zs_list_add(&zs_dev.links, &l->all);
    return l;
}

static void mark_dirty(struct zs_link *l)
{
    if (zs_list_empty(&l->dirty_link))
        zs_list_add(&zs_dev.dirty, &l->dirty_link);
}

static void queue_hello(struct zs_link *l)
{
    struct zs_hello h;
    zs_hello_fill(&h, ZS_KIND_LINK);
    memcpy(l->tx + l->tx_tail, &h, sizeof h);
    l->tx_tail += sizeof h;
    mark_dirty(l);
}

void zs_link_accept(int fd, bool local, const struct zs_hello *hello)
{
    struct zs_link *l = link_new(fd, false, local);
    if (!l) {
        close(fd);
        return;
    }
    l->hello_seen = true;
    l->peer_instance = hello->instance;
    zs_direct_peer(l, hello);
    queue_hello(l);
}

/* --- who uses which ---------------------------------------------------------------------------------------------------------------- */

static struct zs_link_key key_for(const struct zs_qp *qp)
{
    const struct ibv_global_route *g = &qp->attr.ah_attr.grh;
    const struct zs_gid *gids;
    struct zs_link_key k = {.port = qp->attr.dest_qp_num >> 8};
    memcpy(k.addr, g->dgid.raw, 16);
    if (k.addr[0] == 0xfe && (k.addr[1] & 0xc0) == 0x80 && g->sgid_index < zs_gids(&gids))
        k.scope = gids[g->sgid_index].ifindex;
    return k;
}

static struct zs_link *find(const struct zs_link_key *k)
{
    for (struct zs_list *i = zs_dev.links.next; i != &zs_dev.links; i = i->next) {
        struct zs_link *l = zs_container(i, struct zs_link, all);
        if (l->outgoing && !l->broken && memcmp(&l->key, k, sizeof *k) == 0)
            return l;
    }
    return NULL;
}

static struct zs_link *dial(const struct zs_link_key *k, int *error)
{
    struct zs_addr to = {.scope = k->scope};
    char name[64];
    bool local;
    memcpy(to.ip, k->addr, 16);
    zs_unix_name(name, "qp", (uint16_t)k->port);
    int fd = zs_stream_connect(&to, (uint16_t)k->port, name, &local);
    if (fd < 0) {
        *error = -fd;
        return NULL;
    }
    struct zs_link *l = link_new(fd, true, local);
    if (!l) {
        close(fd);
        *error = ENOMEM;
        return NULL;
    }
    l->key = *k;
    zs_timer_set(&l->timer, zs_now_ns() + CONNECT_NS, link_late);
    queue_hello(l);
    return l;
}

int zs_link_get(struct zs_qp *qp)
{
    struct zs_link_key k = key_for(qp);
    int e = 0;
    struct zs_link *l = find(&k);
    if (!l)
        l = dial(&k, &e);
    if (!l)
        return e;
    qp->link = l;
    zs_list_add(&l->qps, &qp->link_qps);
    if (l->hello_seen)
        zs_requester_peer_is(qp, l->peer_instance);
    return 0;
}

void zs_link_detach(struct zs_qp *qp)
{
    struct zs_link *l = qp->link;
    zs_list_del(&qp->ready_link); /* it may be waiting for one of them */
    if (l) {
        forget_place(l, qp);
        zs_list_del(&qp->link_qps);
        qp->link = NULL;
        if (zs_list_empty(&l->qps))
            link_down(l);
    }
    if (qp->rlink) {
        forget_place(qp->rlink, qp);
        zs_list_del(&qp->rlink_qps);
        qp->rlink = NULL;
    }
}

/* --- sending ------------------------------------------------------------------------------------------------------------------------ */

static uint32_t pending(const struct zs_link *l)
{
    return l->tx_tail - l->tx_head;
}

bool zs_link_room(const struct zs_link *l)
{
    return pending(l) < TX_ROOM && !l->broken;
}

void zs_link_wait(struct zs_link *l, struct zs_qp *qp)
{
    zs_list_del(&qp->ready_link);
    zs_list_add(&l->waiting, &qp->ready_link);
    mark_dirty(l);
}

static void want(struct zs_link *l)
{
    uint32_t events = 0;
    if (l->state == ZS_LINK_CONNECTING || pending(l))
        events |= EPOLLOUT;
    /* whoever asks must also take the answers: while he does not, no more questions are read */
    if (l->state == ZS_LINK_UP && (l->outgoing || pending(l) < TX_ROOM))
        events |= EPOLLIN;
    zs_source_want(&l->src, events);
}

/* False if the data could not be read. */
static bool append(struct zs_link *l, const void *data, size_t n)
{
    if (l->tx_tail + n > TX_SIZE) {
        memmove(l->tx, l->tx + l->tx_head, pending(l));
        l->tx_tail -= l->tx_head;
        l->tx_head = 0;
    }
    if (l->tx_tail + n > TX_SIZE) {
        l->broken = true; /* cannot be: every caller asks for room first */
        return true;
    }
    if (!zs_move(l->tx + l->tx_tail, data, n))
        return false;
    l->tx_tail += (uint32_t)n;
    return true;
}

static ssize_t write_now(struct zs_link *l, const struct iovec *iov, size_t n)
{
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n};
    ssize_t sent = sendmsg(l->src.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        l->broken = true;
    if (sent >= (ssize_t)COPY_BELOW)
        l->rx_progress_ns = zs_now_ns();
    return sent < 0 ? 0 : sent;
}

static void flush(struct zs_link *l)
{
    if (l->state != ZS_LINK_UP || l->broken || !pending(l))
        return;
    struct iovec iov = {.iov_base = l->tx + l->tx_head, .iov_len = pending(l)};
    l->tx_head += (uint32_t)write_now(l, &iov, 1);
    if (l->tx_head == l->tx_tail)
        l->tx_head = l->tx_tail = 0;
}

/* The payload is the application's memory, which may be deregistered and unmapped as soon as this returns: what the
 * socket does not take now is copied. */
bool zs_link_send(struct zs_link *l, const struct zs_frame *f, const void *data, size_t length)
{
    mark_dirty(l);
    if (zs_faults_on[ZS_FAULT_LINK] && zs_fault(ZS_FAULT_LINK))
        l->broken = true;
    if (l->broken)
        return true;
    if (length < COPY_BELOW || l->state != ZS_LINK_UP) {
        append(l, f, sizeof *f);
        if (!length || append(l, data, length))
            return true;
        l->tx_tail -= (uint32_t)sizeof *f;
        return false;
    }
    if (!zs_touch(data, length)) /* before the header is on its way */
        return false;
    append(l, f, sizeof *f);
    struct iovec iov[2] = {{.iov_base = l->tx + l->tx_head, .iov_len = pending(l)},
                           {.iov_base = (void *)(uintptr_t)data, .iov_len = length}};
    size_t sent = (size_t)write_now(l, iov, 2);
    size_t of_tx = sent < pending(l) ? sent : pending(l);
    l->tx_head += (uint32_t)of_tx;
    if (l->tx_head == l->tx_tail)
        l->tx_head = l->tx_tail = 0;
    sent -= of_tx;
    if (sent < length && !append(l, (const char *)data + sent, length - sent))
        l->broken = true; /* unmapped under our hands: the frame cannot be finished */
    return true;
}

/* A message that answers a message must not overtake its acknowledgement: see dispatch() in device.c. */
void zs_link_flush_answers(struct zs_qp *qp)
{
    if (qp->rlink)
        flush(qp->rlink);
}

void zs_link_flush_dirty(void)
{
    for (struct zs_list *i = zs_dev.dirty.next; i != &zs_dev.dirty; i = i->next) {
        struct zs_link *l = zs_container(i, struct zs_link, dirty_link);
        if (!l->outgoing)
            flush(l);
    }
    while (!zs_list_empty(&zs_dev.dirty)) {
        struct zs_link *l = zs_container(zs_dev.dirty.next, struct zs_link, dirty_link);
        zs_list_del(&l->dirty_link);
        flush(l);
        if (l->broken) {
            link_down(l);
            continue;
        }
        if (l->state == ZS_LINK_UP && zs_link_room(l))
            wake_waiting(l);
        want(l);
    }
}

/* --- events ---------------------------------------------------------------------------------------------------------------------------- */

static bool connected(struct zs_link *l)
{
    int e = 0;
    socklen_t n = sizeof e;
    if (getsockopt(l->src.fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0 || e)
        return false;
    l->state = ZS_LINK_UP;
    return true;
}

void zs_link_more(struct zs_link *l)
{
    if (zs_list_empty(&l->more_link))
        zs_list_add(&zs_dev.more, &l->more_link);
}

static void receive(struct zs_link *l)
{
    if (zs_link_receive(l))
        mark_dirty(l); /* flush what waits, and look again at what to wait for */
    else
        link_down(l);
}

bool zs_links_go_on(void)
{
    struct zs_list now;
    bool any = !zs_list_empty(&zs_dev.more);
    zs_list_init(&now);
    while (!zs_list_empty(&zs_dev.more)) {
        struct zs_list *first = zs_dev.more.next;
        zs_list_del(first);
        zs_list_add(&now, first);
    }
    while (!zs_list_empty(&now)) {
        struct zs_link *l = zs_container(now.next, struct zs_link, more_link);
        zs_list_del(&l->more_link);
        receive(l);
    }
    return any;
}

static void link_ready(struct zs_source *s, uint32_t events)
{
    struct zs_link *l = zs_container(s, struct zs_link, src);
    if (l->state == ZS_LINK_CONNECTING) {
        if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
            return;
        if (!connected(l)) {
            link_down(l);
            return;
        }
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP))
        receive(l);
    else
        mark_dirty(l);
}
