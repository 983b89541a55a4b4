/* Posting with the ibv_wr_* family (ibv_create_qp_ex with send_ops_flags). WRs are built in the send queue's own slots
 * between wr_start and wr_complete, under the queue's spinlock; a batch is published whole or not at all. */
#include <errno.h>
#include <string.h>

#include "model.h"

static struct zs_qp *of(struct ibv_qp_ex *ex)
{
    return zs_container(ex, struct zs_qp, qp_ex);
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct zs_qp *qp = of(ex);
    zs_spin_lock(&qp->sq_lock);
    int state = zs_qp_state(qp);
    qp->ex_tail = atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);
    qp->ex_error = state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR ? EINVAL : 0;
    qp->ex_cur = NULL;
}

static struct zs_wqe *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct zs_qp *qp = of(ex);
    if (qp->ex_error)
        return NULL;
    if (qp->ex_tail - atomic_load_explicit(&qp->sq_free, memory_order_acquire) >= qp->sq_size)
        qp->ex_error = ENOMEM;
    if (qp->ex_error)
        return NULL;
    struct zs_wqe *w = &qp->sq[qp->ex_tail++ & qp->sq_mask];
    memset(w, 0, sizeof *w);
    w->wr_id = ex->wr_id;
    w->opcode = (uint8_t)opcode;
    w->flags = (uint8_t)(ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE); /* set with the data */
    w->signaled = qp->sig_all || ex->wr_flags & IBV_SEND_SIGNALED;
    w->model_ns = zs_model.on ? zs_now_ns() : 0;
    qp->ex_cur = w;
    return w;
}

static void rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint32_t imm)
{
    struct zs_wqe *w = begin(ex, op);
    if (!w)
        return;
    w->rkey = rkey;
    w->remote_addr = addr;
    w->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    rdma(ex, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
    rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    struct zs_wqe *w = begin(ex, IBV_WR_SEND_WITH_IMM);
    if (w)
        w->imm = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    struct zs_wqe *w = begin(ex, IBV_WR_SEND_WITH_INV);
    if (w)
        w->imm = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    struct zs_wqe *w = begin(ex, IBV_WR_LOCAL_INV);
    if (w)
        w->imm = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    struct zs_qp *qp = of(ex);
    struct zs_wqe *w = begin(ex, IBV_WR_BIND_MW);
    if (w)
        qp->ex_error = mw->type == IBV_MW_TYPE_2 ? zs_window_fill(qp, w, mw, rkey, info) : EINVAL;
}

static void atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint64_t a,
                   uint64_t b)
{
    struct zs_wqe *w = begin(ex, op);
    if (!w)
        return;
    w->rkey = rkey;
    w->remote_addr = addr;
    w->compare_add = a;
    w->swap = b;
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
    atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
    atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

/* --- setters: they refer to the WR begun last --------------------------------------------------------------------------- */

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
    struct zs_qp *qp = of(ex);
    struct zs_wqe *w = qp->ex_cur;
    uint64_t length = 0;
    if (qp->ex_error || !w)
        return;
    if (n > qp->sq_sge_max) {
        qp->ex_error = EINVAL;
        return;
    }
    struct ibv_sge *to = zs_wqe_sges(qp, w);
    for (size_t i = 0; i < n; i++) {
        to[i] = list[i];
        length += list[i].length;
    }
    w->num_sge = (uint16_t)n;
    w->length = (uint32_t)length;
    if (length > ZS_MAX_MSG)
        qp->ex_error = EINVAL;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    struct ibv_sge s = {.addr = addr, .length = length, .lkey = lkey};
    wr_set_sge_list(ex, length ? 1 : 0, &s);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
    struct zs_qp *qp = of(ex);
    struct zs_wqe *w = qp->ex_cur;
    uint8_t *to;
    size_t length = 0;
    if (qp->ex_error || !w)
        return;
    to = zs_wqe_inline(qp, w);
    for (size_t i = 0; i < n; i++) {
        if (list[i].length > qp->inline_max - length) {
            qp->ex_error = EINVAL;
            return;
        }
        if (list[i].length)
            memcpy(to + length, list[i].addr, list[i].length);
        length += list[i].length;
    }
    w->num_sge = 0;
    w->length = (uint32_t)length;
    w->flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    struct ibv_data_buf b = {.addr = addr, .length = length};
    wr_set_inline_data_list(ex, 1, &b);
}

static int check_batch(const struct zs_qp *qp)
{
    for (uint32_t i = atomic_load_explicit(&qp->sq_tail, memory_order_relaxed); i != qp->ex_tail; i++) {
        const struct zs_wqe *w = &qp->sq[i & qp->sq_mask];
        if ((w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) && w->length != 8)
            return EINVAL;
        if (w->opcode == IBV_WR_RDMA_READ && w->flags & IBV_SEND_INLINE)
            return EINVAL;
    }
    return 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct zs_qp *qp = of(ex);
    int e = qp->ex_error ? qp->ex_error : check_batch(qp);
    bool some = !e && qp->ex_tail != atomic_load_explicit(&qp->sq_tail, memory_order_relaxed);
    if (some)
        atomic_store_explicit(&qp->sq_tail, qp->ex_tail, memory_order_release);
    zs_spin_unlock(&qp->sq_lock);
    if (some)
        zs_ring(qp);
    return e;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    zs_spin_unlock(&of(ex)->sq_lock);
}

/* As providers do, a builder only for each operation that was asked for: a program can see what the queue pair takes. */
void zs_qp_ex_setup(struct zs_qp *qp)
{
    struct ibv_qp_ex *ex = &qp->qp_ex;
    const uint64_t ops = qp->send_ops;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_rdma_read = ops & IBV_QP_EX_WITH_RDMA_READ ? wr_rdma_read : NULL;
    ex->wr_rdma_write = ops & IBV_QP_EX_WITH_RDMA_WRITE ? wr_rdma_write : NULL;
    ex->wr_rdma_write_imm = ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM ? wr_rdma_write_imm : NULL;
    ex->wr_send = ops & IBV_QP_EX_WITH_SEND ? wr_send : NULL;
    ex->wr_send_inv = ops & IBV_QP_EX_WITH_SEND_WITH_INV ? wr_send_inv : NULL;
    ex->wr_local_inv = ops & IBV_QP_EX_WITH_LOCAL_INV ? wr_local_inv : NULL;
    ex->wr_bind_mw = ops & IBV_QP_EX_WITH_BIND_MW ? wr_bind_mw : NULL;
    ex->wr_send_imm = ops & IBV_QP_EX_WITH_SEND_WITH_IMM ? wr_send_imm : NULL;
    ex->wr_atomic_cmp_swp = ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP ? wr_cmp_swp : NULL;
    ex->wr_atomic_fetch_add = ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD ? wr_fetch_add : NULL;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
}
