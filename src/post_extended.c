/* The extended family: an entry becomes a builder call and a setter call, in the provider's own queue. See ibv_wr_post(3). */
#include "post_private.h"

/* A QP has the builders of the operations that it was created for; the others are NULL, and calling one would end the program. */
bool zc_post_extended_offers(const struct ibv_qp_ex *ex, uint64_t ops)
{
    const struct {
        uint64_t op;
        bool offered;
    } table[] = {
        {IBV_QP_EX_WITH_RDMA_READ, ex->wr_rdma_read},
        {IBV_QP_EX_WITH_RDMA_WRITE, ex->wr_rdma_write},
        {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, ex->wr_rdma_write_imm},
        {IBV_QP_EX_WITH_SEND, ex->wr_send},
        {IBV_QP_EX_WITH_SEND_WITH_IMM, ex->wr_send_imm},
        {IBV_QP_EX_WITH_SEND_WITH_INV, ex->wr_send_inv},
        {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, ex->wr_atomic_cmp_swp},
        {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, ex->wr_atomic_fetch_add},
        {IBV_QP_EX_WITH_LOCAL_INV, ex->wr_local_inv},
        {IBV_QP_EX_WITH_BIND_MW, ex->wr_bind_mw},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (ops & table[i].op) {
            if (!table[i].offered)
                return false;
            ops &= ~table[i].op;
        }
    return ops == 0;    /* what is left is nothing that is posted here */
}

/* Not inline: its array would be in everybody's frame. */
static __attribute__((noinline)) int set_list(const struct zc_sender *sender, const struct ibv_send_wr *wr)
{
    struct ibv_data_buf pieces[ZC_INLINE_PIECES_MAX];
    const int rc = zc_wr_check(sender, wr);
    if (rc)
        return rc;
    if (!(wr->send_flags & IBV_SEND_INLINE)) {
        ibv_wr_set_sge_list(sender->ex, (size_t)wr->num_sge, wr->sg_list);
        return 0;
    }
    if (wr->num_sge > ZC_INLINE_PIECES_MAX)
        return -EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        pieces[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr, .length = wr->sg_list[i].length};
    ibv_wr_set_inline_data_list(sender->ex, (size_t)wr->num_sge, pieces);
    return 0;
}

/* Every operation with data wants exactly one setter, for no bytes too. */
static inline int set_data(const struct zc_sender *sender, struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *const sge = wr->sg_list;
    if (wr->num_sge != 1)
        return set_list(sender, wr);
    if (!(wr->send_flags & IBV_SEND_INLINE)) {
        ibv_wr_set_sge(ex, sge->lkey, sge->addr, sge->length);
        return 0;
    }
    if (sge->length > sender->max_inline_bytes)
        return -EMSGSIZE;
    ibv_wr_set_inline_data(ex, (void *)(uintptr_t)sge->addr, sge->length);
    return 0;
}

/* A builder, where the QP has it. */
#define BUILD(builder, ...)                                                                                                      \
    do {                                                                                                                         \
        if (!ex->builder)                                                                                                        \
            return -EOPNOTSUPP;                                                                                                  \
        ex->builder(ex, ##__VA_ARGS__);                                                                                          \
    } while (0)

/* 1: and no data goes with it. */
static __attribute__((noinline)) int build_other(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        BUILD(wr_rdma_write_imm, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
        return 0;
    case IBV_WR_SEND_WITH_IMM:
        BUILD(wr_send_imm, wr->imm_data);
        return 0;
    case IBV_WR_SEND_WITH_INV:
        BUILD(wr_send_inv, wr->invalidate_rkey);
        return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        BUILD(wr_atomic_cmp_swp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
        return 0;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        BUILD(wr_atomic_fetch_add, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
        return 0;
    case IBV_WR_LOCAL_INV:
        BUILD(wr_local_inv, wr->invalidate_rkey);
        return 1;
    case IBV_WR_BIND_MW:
        BUILD(wr_bind_mw, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
        return 1;
    default:
        return -EOPNOTSUPP;
    }
}

/* The common ones by comparison: less than a jump through a table. */
static inline int put(const struct zc_sender *sender, struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    ex->wr_id = wr->wr_id;
    /* With IBV_SEND_INLINE in it, although the setter says so already: rxe looks for the bytes behind the lkey otherwise, and the
     * completion is LOC_QP_OP_ERR. Other providers do not look at that flag here. */
    ex->wr_flags = wr->send_flags;
    if (wr->opcode == IBV_WR_RDMA_READ) {
        BUILD(wr_rdma_read, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    } else if (wr->opcode == IBV_WR_RDMA_WRITE) {
        BUILD(wr_rdma_write, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    } else if (wr->opcode == IBV_WR_SEND) {
        BUILD(wr_send);
    } else {
        const int rc = build_other(ex, wr);
        if (rc)
            return rc < 0 ? rc : 0;
    }
    return set_data(sender, ex, wr);
}

int zc_sender_post_extended(const struct zc_sender *sender, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    struct ibv_qp_ex *const ex = sender->ex;
    ibv_wr_start(ex);
    do {
        const int rc = put(sender, ex, list);
        if (rc) {
            ibv_wr_abort(ex);
            *bad = list;
            return rc;
        }
        list = list->next;
    } while (list);
    /* Inline bytes and SGEs were counted before: what has no space is the queue. librxe says so with ENOSPC. */
    const int rc = ibv_wr_complete(ex);
    return rc == 0 ? 0 : rc == ENOSPC ? -ENOMEM : zc_post_error(rc);
}
