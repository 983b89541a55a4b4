/* Posting with ibv_post_send() and ibv_post_recv(): validate, copy the WR into its slot, publish, ring. Nothing here
 * allocates, and the only system call is the wake-up of a sleeping device. */
#include <errno.h>
#include <string.h>

#include "model.h"

static int check_length(const struct zs_qp *qp, const struct zs_wqe *w, uint64_t length)
{
    (void)qp;
    if (length > ZS_MAX_MSG)
        return EINVAL;
    if ((w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) && length != 8)
        return EINVAL;
    return 0;
}

static int copy_sges(struct zs_qp *qp, struct zs_wqe *w, const struct ibv_send_wr *wr)
{
    struct ibv_sge *to = zs_wqe_sges(qp, w);
    uint64_t length = 0;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq_sge_max)
        return EINVAL;
    w->num_sge = (uint16_t)wr->num_sge;
    for (int i = 0; i < wr->num_sge; i++) {
        to[i] = wr->sg_list[i];
        length += to[i].length;
    }
    w->length = (uint32_t)length;
    return check_length(qp, w, length);
}

/* Inline: the caller's bytes are copied now, so the buffers are his again when the post returns; lkeys are not read. */
static int copy_inline(struct zs_qp *qp, struct zs_wqe *w, const struct ibv_send_wr *wr)
{
    uint8_t *to = zs_wqe_inline(qp, w);
    uint64_t length = 0;
    if (w->opcode != IBV_WR_SEND && w->opcode != IBV_WR_SEND_WITH_IMM && w->opcode != IBV_WR_SEND_WITH_INV &&
        w->opcode != IBV_WR_RDMA_WRITE && w->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *s = &wr->sg_list[i];
        if (length + s->length > qp->inline_max)
            return EINVAL;
        if (s->length)
            memcpy(to + length, (const void *)(uintptr_t)s->addr, s->length);
        length += s->length;
    }
    w->num_sge = 0;
    w->length = (uint32_t)length;
    return 0;
}

static int build(struct zs_qp *qp, struct zs_wqe *w, const struct ibv_send_wr *wr, enum ibv_mw_type binds)
{
    w->wr_id = wr->wr_id;
    w->opcode = (uint8_t)wr->opcode;
    w->flags = (uint8_t)wr->send_flags;
    w->signaled = qp->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
    w->sent = w->no_direct = w->model_due = false;
    w->model_ns = zs_model.on ? zs_now_ns() : 0;
    w->status = IBV_WC_SUCCESS;
    w->imm = wr->imm_data;
    switch (wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        break;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        w->remote_addr = wr->wr.rdma.remote_addr;
        w->rkey = wr->wr.rdma.rkey;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        w->remote_addr = wr->wr.atomic.remote_addr;
        w->rkey = wr->wr.atomic.rkey;
        w->compare_add = wr->wr.atomic.compare_add;
        w->swap = wr->wr.atomic.swap;
        break;
    case IBV_WR_LOCAL_INV:
        w->num_sge = 0;
        w->length = 0;
        return 0;
    case IBV_WR_BIND_MW:
        if (!wr->bind_mw.mw || wr->bind_mw.mw->type != binds)
            return EINVAL;
        return zs_window_fill(qp, w, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
    default:
        return EOPNOTSUPP;
    }
    return wr->send_flags & IBV_SEND_INLINE ? copy_inline(qp, w, wr) : copy_sges(qp, w, wr);
}

static int post(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad, enum ibv_mw_type binds)
{
    struct zs_qp *qp = zs_qp(ibqp);
    int state = zs_qp_state(qp);
    if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR || zs_dev.forked) {
        *bad = wr;
        return EINVAL;
    }
    int e = 0;
    zs_spin_lock(&qp->sq_lock);
    uint32_t tail = atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);
    uint32_t first = tail;
    for (; wr; wr = wr->next, tail++) {
        if (tail - atomic_load_explicit(&qp->sq_free, memory_order_acquire) >= qp->sq_size)
            e = ENOMEM;
        else
            e = build(qp, &qp->sq[tail & qp->sq_mask], wr, binds);
        if (e) {
            *bad = wr;
            break;
        }
    }
    atomic_store_explicit(&qp->sq_tail, tail, memory_order_release);
    zs_spin_unlock(&qp->sq_lock);
    if (tail != first)
        zs_ring(qp);
    return e;
}

int zs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return post(qp, wr, bad, IBV_MW_TYPE_2);
}

int zs_post_bind(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return post(qp, wr, bad, IBV_MW_TYPE_1);
}

int zs_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct zs_qp *qp = zs_qp(ibqp);
    int state = zs_qp_state(qp);
    if (qp->srq || state == IBV_QPS_RESET || zs_dev.forked) {
        *bad = wr;
        return EINVAL;
    }
    int e = 0;
    zs_spin_lock(&qp->rq_lock);
    uint32_t tail = atomic_load_explicit(&qp->rq_tail, memory_order_relaxed);
    for (; wr; wr = wr->next, tail++) {
        e = tail - atomic_load_explicit(&qp->rq_free, memory_order_acquire) >= qp->rq_size
                ? ENOMEM
                : zs_rwqe_fill(&qp->rq[tail & qp->rq_mask], &qp->rq_sges[(size_t)(tail & qp->rq_mask) * qp->rq_sge_max], wr, qp->rq_sge_max);
        if (e) {
            *bad = wr;
            break;
        }
    }
    atomic_store_explicit(&qp->rq_tail, tail, memory_order_release);
    zs_spin_unlock(&qp->rq_lock);
    /* Only a QP in ERR has work with a receive at once; the state is read after publishing, so that the flush that
     * started meanwhile does not miss it. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&qp->state) == IBV_QPS_ERR)
        zs_ring(qp);
    return e;
}
