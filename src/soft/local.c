/* Queue pairs whose peer lives in the same process: the payload goes from memory to memory in one copy, a piece at a
 * time, with every check of both sides made as if it had travelled. Device thread only, dev.lock held. */
#include "model.h"

#define RUN_BYTES ZS_PIECE
#define RUN_OPS 32

enum step { STEP_DONE, STEP_MORE, STEP_STOP };

static struct zs_wqe *oldest(struct zs_qp *qp)
{
    return &qp->sq[qp->sq_ack & qp->sq_mask];
}

/* The peer as its packets would find it: there, connected to us, and expecting this message. */
static struct zs_qp *peer_of(struct zs_qp *qp)
{
    struct zs_qp *p = zs_qp_by_num(qp->attr.dest_qp_num);
    int s = p ? zs_qp_state(p) : IBV_QPS_RESET;
    if (!p || (s != IBV_QPS_RTR && s != IBV_QPS_RTS && s != IBV_QPS_SQD))
        return NULL;
    return p->attr.dest_qp_num == qp->qp.qp_num && p->peer_here && p->epsn == qp->psn ? p : NULL;
}

static bool has_imm(const struct zs_wqe *w)
{
    return w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool has_inv(const struct zs_wqe *w)
{
    return w->opcode == IBV_WR_SEND_WITH_INV;
}

/* The responder refuses: both sides end in ERR (RNR aside). */
static enum step refused(struct zs_qp *qp, struct zs_qp *peer, enum zs_nak nak)
{
    if (nak == ZS_NAK_RNR) {
        zs_requester_rnr(qp, peer->attr.min_rnr_timer);
        return STEP_STOP;
    }
    zs_respond_failed(peer, nak);
    zs_requester_fail(qp, oldest(qp), zs_nak_status(nak));
    return STEP_STOP;
}

static enum zs_nak begin(struct zs_qp *peer, const struct zs_wqe *w)
{
    enum zs_frame_op op = zs_frame_op_of(w);
    enum zs_nak nak = ZS_NAK_NONE;
    zs_respond_established(peer);
    if (op != ZS_OP_SEND)
        nak = zs_respond_check(peer, op, w->rkey, w->remote_addr, w->length);
    if (!nak && (op == ZS_OP_SEND || has_imm(w)))
        nak = zs_respond_take_recv(peer);
    if (!nak && op == ZS_OP_SEND && w->length > peer->recv.length)
        nak = ZS_NAK_INV_REQ;
    return nak;
}

/* Both ends of the next piece are held when this returns ZS_NAK_NONE and *local_error is false. */
static enum zs_nak hold_piece(struct zs_qp *qp, struct zs_qp *peer, const struct zs_wqe *w, void **to, const void **from,
                              size_t *n, bool *local_error)
{
    size_t want = w->length - qp->send_off, here, there;
    struct zs_cursor c;
    bool read = zs_frame_op_of(w) == ZS_OP_READ;
    void *mine, *theirs;
    if (want > ZS_PIECE)
        want = ZS_PIECE;
    zs_cursor_start(&c, qp, w, qp->send_off);
    mine = zs_cursor_hold(&c, read ? ZS_HAZARD_DST : ZS_HAZARD_SRC, qp->pd, read ? IBV_ACCESS_LOCAL_WRITE : 0, want, &here);
    *local_error = !mine;
    if (!mine)
        return ZS_NAK_NONE;
    if (zs_frame_op_of(w) == ZS_OP_SEND) {
        theirs = zs_cursor_hold(&peer->recv_at, ZS_HAZARD_DST, peer->pd, IBV_ACCESS_LOCAL_WRITE, here, &there);
    } else {
        there = here;
        theirs = zs_mr_hold_remote(read ? ZS_HAZARD_SRC : ZS_HAZARD_DST, peer, w->rkey, w->remote_addr + qp->send_off, there,
                                   read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    }
    if (!theirs)
        return zs_frame_op_of(w) == ZS_OP_SEND ? ZS_NAK_OP : ZS_NAK_ACCESS;
    *n = there;
    *to = read ? mine : theirs;
    *from = read ? theirs : mine;
    return ZS_NAK_NONE;
}

static void release_both(void)
{
    zs_mr_release(ZS_HAZARD_SRC);
    zs_mr_release(ZS_HAZARD_DST);
}

/* Memory that is registered on one side is not mapped any more. */
static enum step gone(struct zs_qp *qp, struct zs_qp *peer, struct zs_wqe *w, const void *mine, size_t n)
{
    if (!zs_fault_was_in(mine, n))
        return refused(qp, peer, zs_frame_op_of(w) == ZS_OP_SEND ? ZS_NAK_OP : ZS_NAK_ACCESS);
    zs_requester_fail(qp, w, IBV_WC_LOC_PROT_ERR);
    return STEP_STOP;
}

static enum step move_piece(struct zs_qp *qp, struct zs_qp *peer, struct zs_wqe *w, size_t *moved)
{
    void *to = NULL;
    const void *from = NULL;
    bool local_error;
    enum zs_nak nak = hold_piece(qp, peer, w, &to, &from, moved, &local_error);
    if (local_error || nak) {
        release_both();
        if (!local_error)
            return refused(qp, peer, nak);
        zs_requester_fail(qp, w, IBV_WC_LOC_PROT_ERR);
        return STEP_STOP;
    }
    bool there = zs_move(to, from, *moved);
    release_both();
    if (!there)
        return gone(qp, peer, w, zs_frame_op_of(w) == ZS_OP_READ ? to : from, *moved);
    qp->send_off += (uint32_t)*moved;
    if (zs_frame_op_of(w) == ZS_OP_SEND)
        zs_cursor_skip(&peer->recv_at, *moved);
    return STEP_MORE;
}

static enum step atomic(struct zs_qp *qp, struct zs_qp *peer, struct zs_wqe *w)
{
    struct zs_cursor c;
    size_t done = 0;
    uint64_t found = 0;
    enum zs_nak nak = zs_respond_atomic(peer, zs_frame_op_of(w), w->rkey, w->remote_addr, w->compare_add, w->swap, &found);
    if (nak)
        return refused(qp, peer, nak);
    zs_cursor_start(&c, qp, w, 0);
    while (done < sizeof found) {
        size_t n;
        void *to = zs_cursor_hold(&c, ZS_HAZARD_DST, qp->pd, IBV_ACCESS_LOCAL_WRITE, sizeof found - done, &n);
        bool there = to && zs_move(to, (const char *)&found + done, n);
        zs_mr_release(ZS_HAZARD_DST);
        if (!there) {
            zs_requester_fail(qp, w, IBV_WC_LOC_PROT_ERR);
            return STEP_STOP;
        }
        zs_cursor_skip(&c, n);
        done += n;
    }
    return STEP_DONE;
}

static void finish(struct zs_qp *qp, struct zs_qp *peer, struct zs_wqe *w)
{
    enum zs_frame_op op = zs_frame_op_of(w);
    qp->psn = (qp->psn + 1) & ZS_PSN_MASK;
    peer->epsn = (peer->epsn + 1) & ZS_PSN_MASK;
    qp->send_off = 0;
    qp->retries_left = qp->attr.retry_cnt;
    qp->rnr_left = qp->attr.rnr_retry;
    if (op == ZS_OP_SEND || has_imm(w))
        zs_respond_recv_done(peer, IBV_WC_SUCCESS, op == ZS_OP_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM, w->length,
                             has_imm(w) || has_inv(w) ? w->imm : 0,
                             has_imm(w) ? IBV_WC_WITH_IMM : has_inv(w) ? IBV_WC_WITH_INV : 0, w->flags & IBV_SEND_SOLICITED);
    zs_requester_complete(qp, w, IBV_WC_SUCCESS);
}

/* A requester that may have more READs outstanding than the peer answers sends too many as soon as so many are posted. A
 * NIC refuses the first that it has no room for, after answering those before it; which one that is, is marked here. */
static bool one_too_many(struct zs_qp *qp, const struct zs_qp *peer, struct zs_wqe *w)
{
    uint32_t reads = 0, tail = atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
    if (qp->attr.max_rd_atomic <= peer->attr.max_dest_rd_atomic)
        return false;
    for (uint32_t i = qp->sq_ack; i != tail && reads <= peer->attr.max_dest_rd_atomic; i++) {
        struct zs_wqe *next = &qp->sq[i & qp->sq_mask];
        if (zs_wqe_is_local(next) || (next != w && next->flags & IBV_SEND_FENCE))
            break; /* waits for what lies before it */
        reads += zs_wqe_is_read(next);
        if (reads > peer->attr.max_dest_rd_atomic)
            next->status = IBV_WC_REM_INV_REQ_ERR;
    }
    return w->status == IBV_WC_REM_INV_REQ_ERR;
}

static enum step run_oldest(struct zs_qp *qp, size_t *moved)
{
    struct zs_wqe *w = oldest(qp);
    *moved = 0;
    if (zs_wqe_is_local(w)) {
        zs_window_run(qp, w);
        return STEP_DONE;
    }
    struct zs_qp *peer = peer_of(qp);
    enum zs_frame_op op = zs_frame_op_of(w);
    if (!peer) {
        zs_requester_retry(qp, 0);
        return STEP_STOP;
    }
    bool atomic_op = op == ZS_OP_CMP_SWAP || op == ZS_OP_FETCH_ADD;
    if (!qp->send_off) {
        if ((op == ZS_OP_READ || atomic_op) && !qp->attr.max_rd_atomic) {
            zs_requester_fail(qp, w, IBV_WC_LOC_QP_OP_ERR);
            return STEP_STOP;
        }
        enum zs_nak nak = begin(peer, w);
        if (!nak && zs_wqe_is_read(w) && one_too_many(qp, peer, w))
            nak = ZS_NAK_INV_REQ;
        if (nak)
            return refused(qp, peer, nak);
    }
    if (atomic_op) {
        enum step s = atomic(qp, peer, w);
        if (s != STEP_DONE)
            return s;
    } else if (w->length) {
        enum step s = move_piece(qp, peer, w, moved);
        if (s != STEP_MORE || qp->send_off < w->length)
            return s;
    }
    if (has_inv(w) && !zs_respond_invalidate(peer, w->imm))
        return refused(qp, peer, ZS_NAK_ACCESS);
    finish(qp, peer, w);
    return STEP_DONE;
}

bool zs_local_run(struct zs_qp *qp)
{
    size_t bytes = 0, moved;
    for (int n = 0; n < RUN_OPS && bytes < RUN_BYTES; n++) {
        if (qp->sq_ack == atomic_load_explicit(&qp->sq_tail, memory_order_acquire))
            return false;
        int state = zs_qp_state(qp);
        if (state == IBV_QPS_ERR || (!qp->send_off && state == IBV_QPS_SQD))
            return false;
        if (zs_model.on && !qp->send_off && zs_model_holds(qp, oldest(qp)))
            return false;
        if (run_oldest(qp, &moved) == STEP_STOP)
            return false;
        bytes += moved;
    }
    return true;
}
