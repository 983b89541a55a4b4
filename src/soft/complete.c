/* How the work of a queue pair ends: completions of the send queue, failures, flushing. Device thread only, dev.lock held. */
#include "model.h"

static enum ibv_wc_opcode wc_opcode(const struct zs_wqe *w)
{
    switch (w->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

/* True if the script makes this request fail. What came in the same turn behind one that failed is flushed. */
static bool scripted(struct zs_qp *qp, enum ibv_wc_status *status)
{
    if (*status != IBV_WC_SUCCESS)
        return false;
    int fault = zs_qp_state(qp) == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : zs_fault(ZS_FAULT_WC);
    *status = (enum ibv_wc_status)fault;
    return fault != IBV_WC_SUCCESS;
}

/* w is sq[sq_ack]. */
void zs_requester_complete(struct zs_qp *qp, struct zs_wqe *w, enum ibv_wc_status status)
{
    bool broken = zs_faults_on[ZS_FAULT_WC] && scripted(qp, &status);
    qp->sq_ack++;
    if ((int32_t)(qp->sq_ack - qp->sq_next) > 0)
        qp->sq_next = qp->sq_ack;
    if (!w->signaled && status == IBV_WC_SUCCESS)
        return;
    struct zs_cqe e = {
        .wr_id = w->wr_id,
        .qp = qp,
        .status = status,
        .opcode = wc_opcode(w),
        .byte_len = zs_wqe_is_read(w) && status == IBV_WC_SUCCESS ? w->length : 0,
        .qp_num = qp->qp.qp_num,
        .queue_next = qp->sq_ack,
        .is_send = true,
    };
    zs_cq_push(qp->send_cq, &e, false);
    if (broken)
        zs_qp_error(qp, IBV_EVENT_QP_FATAL, false);
}

void zs_requester_fail(struct zs_qp *qp, struct zs_wqe *w, enum ibv_wc_status status)
{
    zs_direct_retract(qp); /* its memory is the program's again as soon as it can see the completion */
    zs_requester_complete(qp, w, status);
    zs_qp_error(qp, IBV_EVENT_QP_FATAL, false); /* the completion tells; no event beside it */
}

static void flush_receives(struct zs_qp *qp)
{
    if (qp->recv_held)
        zs_respond_recv_done(qp, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0, 0, 0, false);
    if (qp->srq)
        return;
    for (uint32_t tail = atomic_load_explicit(&qp->rq_tail, memory_order_acquire); qp->rq_head != tail;) {
        struct zs_cqe e = {
            .wr_id = qp->rq[qp->rq_head & qp->rq_mask].wr_id,
            .qp = qp,
            .status = IBV_WC_WR_FLUSH_ERR,
            .opcode = IBV_WC_RECV,
            .qp_num = qp->qp.qp_num,
            .queue_next = ++qp->rq_head,
        };
        zs_cq_push(qp->recv_cq, &e, false);
    }
}

void zs_flush(struct zs_qp *qp)
{
    qp->send_off = qp->recv_off = qp->rd_outstanding = 0;
    qp->send_failed = false;
    for (uint32_t tail = atomic_load_explicit(&qp->sq_tail, memory_order_acquire); qp->sq_ack != tail;)
        zs_requester_complete(qp, &qp->sq[qp->sq_ack & qp->sq_mask], IBV_WC_WR_FLUSH_ERR);
    flush_receives(qp);
}

enum ibv_wc_status zs_nak_status(enum zs_nak nak)
{
    switch (nak) {
    case ZS_NAK_INV_REQ:
        return IBV_WC_REM_INV_REQ_ERR;
    case ZS_NAK_ACCESS:
        return IBV_WC_REM_ACCESS_ERR;
    default:
        return IBV_WC_REM_OP_ERR;
    }
}
