/* Completion queues: a ring that the device thread fills and the application empties, and the verbs on it.
 * zs_cq_push() belongs to the device; polling takes the CQ's own spinlock only and makes no system call. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "soft.h"

static uint32_t ring_size(uint32_t cqe)
{
    uint32_t n = 1;
    while (n < cqe)
        n <<= 1;
    return n;
}

/* --- device side ---------------------------------------------------------------------------------------------------- */

static void overrun(struct zs_cq *cq)
{
    cq->overrun = true;
    zs_async_event(cq->cq.context, IBV_EVENT_CQ_ERR, &cq->cq);
    for (struct zs_list *l = cq->send_qps.next; l != &cq->send_qps; l = l->next)
        zs_qp_error(zs_container(l, struct zs_qp, send_cq_link), IBV_EVENT_QP_FATAL, true);
    for (struct zs_list *l = cq->recv_qps.next; l != &cq->recv_qps; l = l->next)
        zs_qp_error(zs_container(l, struct zs_qp, recv_cq_link), IBV_EVENT_QP_FATAL, true);
}

void zs_cq_push(struct zs_cq *cq, const struct zs_cqe *e, bool solicited)
{
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    if (cq->overrun)
        return;
    if (tail - atomic_load_explicit(&cq->head, memory_order_acquire) > cq->mask) {
        overrun(cq);
        return;
    }
    cq->ring[tail & cq->mask] = *e;
    atomic_store(&cq->tail, tail + 1); /* seq_cst, as is the load below: either the poller sees the entry or we see it armed */
    int armed = atomic_load(&cq->armed);
    if (armed && (armed == 1 || solicited || e->status != IBV_WC_SUCCESS)) {
        atomic_store(&cq->armed, 0);
        zs_channel_notify(cq);
    }
}

void zs_cq_purge(struct zs_cq *cq, struct zs_qp *qp)
{
    zs_spin_lock(&cq->lock);
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed), to = tail;
    for (uint32_t i = tail; i != head;) { /* keep the others, packed towards the tail, which the device owns */
        i--;
        if (cq->ring[i & cq->mask].qp != qp) {
            to--;
            if (to != i)
                cq->ring[to & cq->mask] = cq->ring[i & cq->mask];
        }
    }
    atomic_store_explicit(&cq->head, to, memory_order_release);
    zs_spin_unlock(&cq->lock);
}

bool zs_cq_holds(struct zs_cq *cq, const struct zs_qp *qp)
{
    bool found = false;
    zs_spin_lock(&cq->lock);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    for (uint32_t i = atomic_load_explicit(&cq->head, memory_order_relaxed); i != tail && !found; i++)
        found = cq->ring[i & cq->mask].qp == qp;
    zs_spin_unlock(&cq->lock);
    return found;
}

/* --- application side -------------------------------------------------------------------------------------------------- */

/* A slot of a work queue is in use until the completion that accounts for it was polled, as on a NIC. */
void zs_cqe_retire(const struct zs_cqe *e)
{
    if (e->is_send)
        atomic_store_explicit(&e->qp->sq_free, e->queue_next, memory_order_release);
    else if (!e->is_srq)
        atomic_store_explicit(&e->qp->rq_free, e->queue_next, memory_order_release);
}

static void to_wc(struct ibv_wc *wc, const struct zs_cqe *e)
{
    wc->wr_id = e->wr_id;
    wc->status = e->status;
    wc->opcode = e->opcode;
    wc->vendor_err = 0;
    wc->byte_len = e->byte_len;
    wc->imm_data = e->imm;
    wc->qp_num = e->qp_num;
    wc->src_qp = e->src_qp;
    wc->wc_flags = e->wc_flags;
    wc->pkey_index = 0;
    wc->slid = 0;
    wc->sl = 0;
    wc->dlid_path_bits = 0;
}

/* A NIC needs no core, but this device does: a thread that has polled in vain for some tens of microseconds lets the
 * scheduler have a look, or two polling threads on two cores keep the device thread waiting for whole time slices. */
#define EMPTY_POLLS 8192u

/* Empty is the common answer to a polling thread: give it without touching the lock. */
bool zs_cq_empty(struct zs_cq *cq)
{
    if (atomic_load_explicit(&cq->tail, memory_order_acquire) != atomic_load_explicit(&cq->head, memory_order_relaxed))
        return false;
    uint32_t n = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
    atomic_store_explicit(&cq->empty_polls, n % EMPTY_POLLS, memory_order_relaxed);
    if (n == EMPTY_POLLS)
        sched_yield();
    return true;
}

int zs_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
    struct zs_cq *cq = zs_cq(ibcq);
    if (zs_cq_empty(cq))
        return 0;
    zs_spin_lock(&cq->lock);
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_acquire);
    int got = 0;
    for (; got < n && head != tail; got++, head++) {
        const struct zs_cqe *e = &cq->ring[head & cq->mask];
        to_wc(&wc[got], e);
        zs_cqe_retire(e);
    }
    atomic_store_explicit(&cq->head, head, memory_order_release);
    zs_spin_unlock(&cq->lock);
    return got;
}

int zs_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
    struct zs_cq *cq = zs_cq(ibcq);
    int was = atomic_load_explicit(&cq->armed, memory_order_relaxed);
    if (!cq->cq.channel)
        return 0;
    if (!solicited_only || !was) /* asking for solicited ones does not weaken an earlier request for any */
        atomic_store(&cq->armed, solicited_only ? 2 : 1);
    return 0;
}

struct zs_cq *zs_cq_new(struct ibv_context *c, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel)
{
    if (!zs_usable())
        return NULL;
    if (!cqe || cqe > ZS_MAX_CQE) {
        errno = EINVAL;
        return NULL;
    }
    struct zs_cq *cq = calloc(1, sizeof *cq);
    uint32_t size = ring_size(cqe);
    if (cq)
        cq->ring = calloc(size, sizeof *cq->ring);
    if (!cq || !cq->ring) {
        free(cq);
        errno = ENOMEM;
        return NULL;
    }
    cq->mask = size - 1;
    cq->cq.context = c;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    cq->cq.cqe = (int)size;
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    zs_list_init(&cq->send_qps);
    zs_list_init(&cq->recv_qps);
    zs_list_init(&cq->pending_link);
    if (channel) {
        struct zs_channel *ch = zs_container(channel, struct zs_channel, ch);
        pthread_mutex_lock(&ch->lock);
        channel->refcnt++;
        pthread_mutex_unlock(&ch->lock);
    }
    atomic_fetch_add(&zs_ctx(c)->users, 1);
    return cq;
}

ZS_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *cq_context,
                                       struct ibv_comp_channel *channel, int comp_vector)
{
    if (cqe < 1 || comp_vector < 0 || comp_vector >= c->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct zs_cq *cq = zs_cq_new(c, (uint32_t)cqe, cq_context, channel);
    return cq ? &cq->cq : NULL;
}

ZS_EXPORT int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
    struct zs_cq *cq = zs_cq(ibcq);
    if (cqe < 1 || cqe > ZS_MAX_CQE)
        return EINVAL;
    uint32_t size = ring_size((uint32_t)cqe);
    struct zs_cqe *ring = calloc(size, sizeof *ring);
    if (!ring)
        return ENOMEM;
    zs_lock();
    zs_spin_lock(&cq->lock);
    uint32_t head = atomic_load(&cq->head), tail = atomic_load(&cq->tail);
    if (tail - head > size) {
        zs_spin_unlock(&cq->lock);
        zs_unlock();
        free(ring);
        return EINVAL;
    }
    for (uint32_t i = head; i != tail; i++)
        ring[i & (size - 1)] = cq->ring[i & cq->mask];
    struct zs_cqe *old = cq->ring;
    cq->ring = ring;
    cq->mask = size - 1;
    cq->cq.cqe = (int)size;
    zs_spin_unlock(&cq->lock);
    zs_unlock();
    free(old);
    return 0;
}

/* Blocks until every event of the CQ that was fetched has been acknowledged: the man page's promise. */
static void wait_acks(struct zs_cq *cq)
{
    pthread_mutex_lock(&cq->cq.mutex);
    while (cq->cq.comp_events_completed != cq->comp_events_given ||
           cq->cq.async_events_completed != cq->async_events_given)
        pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
    pthread_mutex_unlock(&cq->cq.mutex);
}

ZS_EXPORT int ibv_destroy_cq(struct ibv_cq *ibcq)
{
    struct zs_cq *cq = zs_cq(ibcq);
    zs_lock();
    if (cq->users) {
        zs_unlock();
        return EBUSY;
    }
    zs_channel_forget(cq);
    zs_async_forget(ibcq->context, ibcq);
    zs_unlock();
    wait_acks(cq);
    if (ibcq->channel) {
        struct zs_channel *ch = zs_container(ibcq->channel, struct zs_channel, ch);
        pthread_mutex_lock(&ch->lock);
        ibcq->channel->refcnt--;
        pthread_mutex_unlock(&ch->lock);
    }
    atomic_fetch_sub(&zs_ctx(ibcq->context)->users, 1);
    pthread_mutex_destroy(&ibcq->mutex);
    pthread_cond_destroy(&ibcq->cond);
    free(cq->ring);
    free(cq);
    return 0;
}
