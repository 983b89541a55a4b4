/* Payload between two processes of one host without a copy through a socket: who owns the written memory pulls, with
 * process_vm_readv(). The reader of a READ does so without the other process' help, as a remote NIC would serve it; a SEND or
 * WRITE is announced over the stream, and fetched by the responder before it acknowledges. What the peer's
 * queue pair and memory region allow stands in two tables which the peer shows; they are read behind the data in the
 * same call, so that data which came from memory that was deregistered meanwhile is never passed off as good.
 * Whatever is not exactly right here - other user, ptrace scope, container, a failed check - takes the stream instead. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "soft.h"

#define OFFER_LEAST 8192u /* there the two ways are level; smaller messages go over the stream, several in one write */
#define PORTS 256u
#define BATCH 16
#define BATCH_LENGTH 16384u /* longer READs gain nothing from company */

static struct zs_qp_slot *shown;
static uint16_t shown_ports[PORTS];

/* --- what this process shows ------------------------------------------------------------------------------------------------ */

static bool table_ready(void)
{
    if (shown)
        return true;
    void *p = mmap(NULL, sizeof *shown * ZS_MAX_QP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    shown = p;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where Yama restricts it; refused elsewhere: no matter */
    return true;
}

static struct zs_qp_slot *slot_of(const struct zs_qp *qp)
{
    if (!table_ready())
        return NULL;
    shown_ports[qp->qp.handle / 256] = (uint16_t)(qp->qp.qp_num >> 8);
    return &shown[qp->qp.handle];
}

void zs_direct_publish(const struct zs_qp *qp)
{
    struct zs_qp_slot *s = slot_of(qp);
    int state = atomic_load_explicit(&qp->state, memory_order_relaxed);
    if (!s)
        return;
    __atomic_store_n(&s->instance, 0, __ATOMIC_SEQ_CST);
    s->qpn = qp->qp.qp_num;
    s->dest_qpn = qp->attr.dest_qp_num;
    s->access = qp->attr.qp_access_flags;
    s->answers = state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ? qp->attr.max_dest_rd_atomic : 0;
    s->sends = state == IBV_QPS_RTS || state == IBV_QPS_SQD;
    s->pd = (uintptr_t)qp->pd;
    __atomic_store_n(&s->instance, zs_dev.instance, __ATOMIC_SEQ_CST);
}

void zs_direct_retract(const struct zs_qp *qp)
{
    if (shown)
        __atomic_store_n(&shown[qp->qp.handle].instance, 0, __ATOMIC_SEQ_CST);
}

/* Also before the first queue pair is shown: a peer that is early must not do without for as long as the link lasts. */
void zs_direct_hello(struct zs_hello *h)
{
    table_ready();
    h->ports = (uintptr_t)shown_ports;
    h->qp_table = (uintptr_t)shown;
    h->mr_table = (uintptr_t)zs_mr_table();
}

/* --- whom this process may read ----------------------------------------------------------------------------------------------- */

void zs_direct_peer(struct zs_link *l, const struct zs_hello *h)
{
    struct ucred cred;
    socklen_t n = sizeof cred;
    l->peer = *h;
    l->peer_pid = 0;
    if (!l->local || zs_dev.no_direct || !h->ports || !h->qp_table || !h->mr_table)
        return;
    if (getsockopt(l->src.fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 && cred.pid > 0)
        l->peer_pid = (uint32_t)cred.pid;
}

bool zs_direct_possible(const struct zs_qp *qp, const struct zs_wqe *w)
{
    const struct zs_link *l = qp->link;
    return !w->no_direct && !qp->no_direct && !w->sent && l->local && !zs_dev.no_direct && (!l->hello_seen || l->peer_pid);
}

/* Refused once is refused for good: the link does without from then on. */
static bool pull(struct zs_link *l, void *to, uint64_t from, size_t n)
{
    struct iovec here = {.iov_base = to, .iov_len = n}, there = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};
    if (process_vm_readv((pid_t)l->peer_pid, &here, 1, &there, 1, 0) == (ssize_t)n)
        return true;
    if (errno == EPERM || errno == ENOSYS)
        l->peer_pid = 0;
    return false;
}

/* Where the peer shows the queue pair that ours is connected to: by the port in its number. */
static bool find_slot(struct zs_qp *qp)
{
    uint16_t ports[PORTS];
    if (!pull(qp->link, ports, qp->link->peer.ports, sizeof ports))
        return false;
    for (uint32_t i = 0; i < PORTS; i++)
        if (ports[i] && ports[i] == qp->attr.dest_qp_num >> 8) {
            qp->direct_slot = qp->link->peer.qp_table + (i * 256 + (qp->attr.dest_qp_num & 255)) * sizeof(struct zs_qp_slot);
            return pull(qp->link, &qp->direct_qp, qp->direct_slot, sizeof qp->direct_qp);
        }
    return false;
}

static uint64_t mr_slot_at(const struct zs_qp *qp, uint32_t rkey)
{
    return qp->link->peer.mr_table + (uint64_t)(rkey >> 8) * sizeof(struct zs_mr_slot);
}

/* More READs than the peer answers at a time are refused, and the stream is where that happens: from then on all of this
 * queue pair's go there, since one by one they would never be too many. */
static bool qp_permits(struct zs_qp *qp)
{
    const struct zs_qp_slot *s = &qp->direct_qp;
    qp->no_direct = s->answers && s->answers < qp->attr.max_rd_atomic;
    return s->instance == qp->link->peer_instance && s->qpn == qp->attr.dest_qp_num && s->dest_qpn == qp->qp.qp_num &&
           s->answers && !qp->no_direct && s->access & IBV_ACCESS_REMOTE_READ;
}

static bool mr_permits(const struct zs_qp *qp, const struct zs_wqe *w)
{
    const struct zs_mr_slot *m = &qp->direct_mr;
    return w->rkey && m->key == w->rkey && m->pd == qp->direct_qp.pd && (!m->qpn || m->qpn == qp->direct_qp.qpn) &&
           m->access & IBV_ACCESS_REMOTE_READ &&
           w->remote_addr >= m->iova && w->remote_addr - m->iova <= m->length &&
           w->length <= m->length - (w->remote_addr - m->iova);
}

/* Fresh copies where the ones at hand do not permit what is asked: they may be old. */
static bool permitted(struct zs_qp *qp, const struct zs_wqe *w)
{
    if (!qp->direct_slot && !find_slot(qp))
        return false;
    if (!qp_permits(qp) && (!pull(qp->link, &qp->direct_qp, qp->direct_slot, sizeof qp->direct_qp) || !qp_permits(qp)))
        return false;
    if ((w->rkey >> 8) >= ZS_MAX_MR)
        return false;
    return mr_permits(qp, w) ||
           (pull(qp->link, &qp->direct_mr, mr_slot_at(qp, w->rkey), sizeof qp->direct_mr) && mr_permits(qp, w));
}

static uint64_t address_of(const struct zs_qp *qp, const struct zs_wqe *w)
{
    return qp->direct_mr.addr + (w->remote_addr - qp->direct_mr.iova);
}

/* The data of `count` runs, and behind them what they rested on; good if that is unchanged. The arrays have room for two
 * more entries. */
static bool pull_checked(struct zs_qp *qp, uint32_t rkey, struct iovec *here, struct iovec *there, unsigned long count)
{
    struct zs_mr_slot mr;
    struct zs_qp_slot q;
    ssize_t all = sizeof mr + sizeof q;
    for (unsigned long i = 0; i < count; i++)
        all += (ssize_t)here[i].iov_len;
    here[count] = (struct iovec){&mr, sizeof mr};
    there[count] = (struct iovec){(void *)(uintptr_t)mr_slot_at(qp, rkey), sizeof mr};
    here[count + 1] = (struct iovec){&q, sizeof q};
    there[count + 1] = (struct iovec){(void *)(uintptr_t)qp->direct_slot, sizeof q};
    if (process_vm_readv((pid_t)qp->link->peer_pid, here, count + 2, there, count + 2, 0) != all)
        return false;
    return memcmp(&mr, &qp->direct_mr, sizeof mr) == 0 && memcmp(&q, &qp->direct_qp, sizeof q) == 0;
}

/* A plain small READ between the same two regions as `first`. */
static bool goes_with(const struct zs_qp *qp, struct zs_wqe *w, const struct zs_wqe *first, uint32_t lkey)
{
    const struct ibv_sge *s = zs_wqe_sges((struct zs_qp *)(uintptr_t)qp, w);
    return w->opcode == IBV_WR_RDMA_READ && !w->no_direct && !w->sent && w->num_sge == 1 && w->length &&
           w->length <= BATCH_LENGTH && w->rkey == first->rkey && s->lkey == lkey && mr_permits(qp, w);
}

/* Several small READs in one call; the number done, 0 if the oldest has to go alone. All land in one local region, so that
 * one hazard covers them. */
unsigned int zs_direct_read_batch(struct zs_qp *qp, uint32_t tail)
{
    struct zs_wqe *first = &qp->sq[qp->sq_ack & qp->sq_mask];
    uint32_t lkey = zs_wqe_sges(qp, first)->lkey;
    struct iovec here[BATCH + 2], there[BATCH + 2];
    unsigned int n = 0;
    if (qp->recv_off || tail - qp->sq_ack < 2 || !first->length || !permitted(qp, first))
        return 0;
    for (; n < BATCH && qp->sq_ack + n != tail; n++) {
        struct zs_wqe *w = &qp->sq[(qp->sq_ack + n) & qp->sq_mask];
        if (!goes_with(qp, w, first, lkey))
            break;
        const struct ibv_sge *s = zs_wqe_sges(qp, w);
        void *to = zs_mr_hold(ZS_HAZARD_DST, qp->pd, lkey, s->addr, w->length, IBV_ACCESS_LOCAL_WRITE);
        if (!to)
            return 0; /* the hold on the others is gone too: one by one, and the error finds its WR */
        here[n] = (struct iovec){to, w->length};
        there[n] = (struct iovec){(void *)(uintptr_t)address_of(qp, w), w->length};
    }
    bool good = n > 1 && pull_checked(qp, first->rkey, here, there, n);
    zs_mr_release(ZS_HAZARD_DST);
    return good ? n : 0;
}

int64_t zs_direct_read(struct zs_qp *qp, struct zs_wqe *w)
{
    struct zs_cursor c;
    size_t want = w->length - qp->recv_off, n;
    if (!w->length || !permitted(qp, w))
        return -1;
    zs_cursor_start(&c, qp, w, qp->recv_off);
    void *to = zs_cursor_hold(&c, ZS_HAZARD_DST, qp->pd, IBV_ACCESS_LOCAL_WRITE, want < ZS_PULL_PIECE ? want : ZS_PULL_PIECE, &n);
    if (!to) {
        zs_requester_fail(qp, w, IBV_WC_LOC_PROT_ERR);
        return -1;
    }
    struct iovec here[3] = {{to, n}}, there[3] = {{(void *)(uintptr_t)(address_of(qp, w) + qp->recv_off), n}};
    bool good = pull_checked(qp, w->rkey, here, there, 1);
    zs_mr_release(ZS_HAZARD_DST);
    return good ? (int64_t)n : -1;
}

/* --- SEND and WRITE ---------------------------------------------------------------------------------------------------------------------- */

bool zs_direct_offer(const struct zs_qp *qp, const struct zs_wqe *w)
{
    const struct zs_link *l = qp->link;
    return w->length >= OFFER_LEAST && !(w->flags & IBV_SEND_INLINE) && !w->no_direct && l->local && !l->no_pull &&
           !zs_dev.no_direct;
}

/* Behind the data comes what they rest on: the requester still has them registered, and the request is not given up - or its
 * owner might have put something else there by now. */
bool zs_direct_fetch(struct zs_link *l, void *to, size_t n)
{
    const struct zs_frame *f = &l->frame;
    struct zs_mr_slot mr;
    struct zs_qp_slot q;
    uint64_t slot = f->b >> 8;
    if (!l->peer_pid || slot >= ZS_MAX_MR || f->qp_slot >= ZS_MAX_QP)
        return false;
    struct iovec here[3] = {{to, n}, {&mr, sizeof mr}, {&q, sizeof q}};
    struct iovec there[3] = {{(void *)(uintptr_t)(f->a + l->place_off), n},
                             {(void *)(uintptr_t)(l->peer.mr_table + slot * sizeof mr), sizeof mr},
                             {(void *)(uintptr_t)(l->peer.qp_table + f->qp_slot * sizeof q), sizeof q}};
    if (process_vm_readv((pid_t)l->peer_pid, here, 3, there, 3, 0) != (ssize_t)(n + sizeof mr + sizeof q)) {
        if (errno == EPERM || errno == ENOSYS)
            l->peer_pid = 0;
        return false;
    }
    return mr.key && mr.key == f->b && q.instance == l->peer_instance && q.qpn == f->src_qpn && q.dest_qpn == f->dst_qpn && q.sends;
}
