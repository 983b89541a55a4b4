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

static int set_inline_list(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    struct ibv_data_buf pieces[ZC_INLINE_PIECES_MAX];
    if (wr->num_sge > ZC_INLINE_PIECES_MAX)
        return -EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        pieces[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr, .length = wr->sg_list[i].length};
    ibv_wr_set_inline_data_list(ex, (size_t)wr->num_sge, pieces);
    return 0;
}

/* Every operation with data wants exactly one setter, for no bytes too. */
static inline int set_data(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *const sge = wr->sg_list;
    if (wr->send_flags & IBV_SEND_INLINE) {
        if (wr->num_sge != 1)
            return set_inline_list(ex, wr);
        ibv_wr_set_inline_data(ex, (void *)(uintptr_t)sge->addr, sge->length);
    } else if (wr->num_sge == 1) {
        ibv_wr_set_sge(ex, sge->lkey, sge->addr, sge->length);
    } else {
        ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, sge);
    }
    return 0;
}

/* A builder, where the QP has it. */
#define BUILD(builder, ...)                                                                                                      \
    do {                                                                                                                         \
        if (!ex->builder)                                                                                                        \
            return -EOPNOTSUPP;                                                                                                  \
        ex->builder(ex, ##__VA_ARGS__);                                                                                          \
    } while (0)

static inline int put(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
    ex->wr_id = wr->wr_id;
    /* With IBV_SEND_INLINE in it, although the setter says so already: rxe looks for the bytes behind the lkey otherwise, and the
     * completion is LOC_QP_OP_ERR. Other providers do not look at that flag here. */
    ex->wr_flags = wr->send_flags;
    switch (wr->opcode) {
    case IBV_WR_RDMA_READ:
        BUILD(wr_rdma_read, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_WRITE:
        BUILD(wr_rdma_write, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        BUILD(wr_rdma_write_imm, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
        break;
    case IBV_WR_SEND:
        BUILD(wr_send);
        break;
    case IBV_WR_SEND_WITH_IMM:
        BUILD(wr_send_imm, wr->imm_data);
        break;
    case IBV_WR_SEND_WITH_INV:
        BUILD(wr_send_inv, wr->invalidate_rkey);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        BUILD(wr_atomic_cmp_swp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        BUILD(wr_atomic_fetch_add, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
        break;
    case IBV_WR_LOCAL_INV:
        BUILD(wr_local_inv, wr->invalidate_rkey);
        return 0;
    case IBV_WR_BIND_MW:
        BUILD(wr_bind_mw, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
        return 0;
    default:
        return -EOPNOTSUPP;
    }
    return set_data(ex, wr);
}

int zc_post_extended(struct ibv_qp_ex *ex, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    ibv_wr_start(ex);
    for (struct ibv_send_wr *wr = list; wr; wr = wr->next) {
        const int rc = put(ex, wr);
        if (rc) {
            ibv_wr_abort(ex);
            *bad = wr;
            return rc;
        }
    }
    const int rc = zc_post_error(ibv_wr_complete(ex));
    *bad = list;
    /* Inline bytes and SGEs were counted before: what has no space is the queue. librxe says so with ENOSPC. */
    return rc == -ENOSPC ? -ENOMEM : rc;
}
