/* The responder side: checks requests against the queue pair and the memory, takes receives, owes answers, sends them.
 * The checks and the handling of receives are shared with local.c. Device thread only, dev.lock held. */
#include <errno.h>
#include <string.h>

#include "soft.h"

#define RUN_BYTES ZS_PIECE
#define RUN_FRAMES 32

static int32_t psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

static uint32_t psn_add(uint32_t psn, int32_t n)
{
    return (psn + (uint32_t)n) & ZS_PSN_MASK;
}

/* --- checks and receives -------------------------------------------------------------------------------------------------- */

static uint32_t access_for(enum zs_frame_op op)
{
    switch (op) {
    case ZS_OP_WRITE:
        return IBV_ACCESS_REMOTE_WRITE;
    case ZS_OP_READ:
        return IBV_ACCESS_REMOTE_READ;
    case ZS_OP_CMP_SWAP:
    case ZS_OP_FETCH_ADD:
        return IBV_ACCESS_REMOTE_ATOMIC;
    default:
        return 0;
    }
}

/* The QP's own rights come first (an invalid request), then the memory's (an access error). A length of 0 names no
 * memory, so no key is checked (IB specification, 9.7.4.1.5). */
enum zs_nak zs_respond_check(struct zs_qp *qp, enum zs_frame_op op, uint32_t rkey, uint64_t va, uint32_t length)
{
    uint32_t access = access_for(op);
    if ((qp->attr.qp_access_flags & access) != access)
        return ZS_NAK_INV_REQ;
    if (op == ZS_OP_CMP_SWAP || op == ZS_OP_FETCH_ADD) {
        if (va % 8 || length != 8)
            return ZS_NAK_INV_REQ;
    } else if (!length) {
        return ZS_NAK_NONE;
    }
    if ((op == ZS_OP_READ || access == IBV_ACCESS_REMOTE_ATOMIC) && !qp->attr.max_dest_rd_atomic)
        return ZS_NAK_INV_REQ;
    if (!zs_mr_hold_remote(ZS_HAZARD_DST, qp, rkey, va, length, access))
        return ZS_NAK_ACCESS;
    zs_mr_release(ZS_HAZARD_DST);
    return ZS_NAK_NONE;
}

static void srq_limit(struct zs_srq *s, uint32_t left)
{
    uint32_t limit = atomic_load_explicit(&s->limit, memory_order_relaxed);
    if (limit && left < limit) { /* one shot: armed again by ibv_modify_srq */
        atomic_store(&s->limit, 0);
        zs_async_event(s->srq.context, IBV_EVENT_SRQ_LIMIT_REACHED, &s->srq);
    }
}

static bool take_from_srq(struct zs_qp *qp)
{
    struct zs_srq *s = qp->srq;
    uint32_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&s->tail, memory_order_acquire);
    if (head == tail)
        return false;
    qp->recv = s->ring[head & s->mask];
    memcpy(qp->recv_sge, &s->sges[(size_t)(head & s->mask) * s->max_sge], qp->recv.num_sge * sizeof(struct ibv_sge));
    atomic_store_explicit(&s->head, head + 1, memory_order_release);
    srq_limit(s, tail - head - 1);
    return true;
}

static bool take_from_rq(struct zs_qp *qp)
{
    if (qp->rq_head == atomic_load_explicit(&qp->rq_tail, memory_order_acquire))
        return false;
    uint32_t i = qp->rq_head & qp->rq_mask;
    qp->recv = qp->rq[i];
    memcpy(qp->recv_sge, &qp->rq_sges[(size_t)i * qp->rq_sge_max], qp->recv.num_sge * sizeof(struct ibv_sge));
    qp->recv_queue_next = ++qp->rq_head;
    return true;
}

enum zs_nak zs_respond_take_recv(struct zs_qp *qp)
{
    if (!qp->recv_held && !(qp->srq ? take_from_srq(qp) : take_from_rq(qp)))
        return ZS_NAK_RNR;
    qp->recv_held = true;
    qp->recv_at = (struct zs_cursor){.sge = qp->recv_sge, .num_sge = qp->recv.num_sge};
    return ZS_NAK_NONE;
}

void zs_respond_recv_done(struct zs_qp *qp, enum ibv_wc_status status, enum ibv_wc_opcode opcode, uint32_t length,
                          uint32_t imm, unsigned int wc_flags, bool solicited)
{
    struct zs_cqe e = {
        .wr_id = qp->recv.wr_id,
        .qp = qp,
        .status = status,
        .opcode = opcode,
        .byte_len = length,
        .imm = imm,
        .wc_flags = wc_flags,
        .qp_num = qp->qp.qp_num,
        .src_qp = qp->attr.dest_qp_num,
        .queue_next = qp->recv_queue_next,
        .is_srq = qp->srq != NULL,
    };
    qp->recv_held = false;
    zs_cq_push(qp->recv_cq, &e, solicited);
}

void zs_respond_established(struct zs_qp *qp)
{
    if (qp->established)
        return;
    qp->established = true;
    if (zs_qp_state(qp) == IBV_QPS_RTR)
        zs_async_event(qp->qp.context, IBV_EVENT_COMM_EST, &qp->qp);
}

void zs_respond_failed(struct zs_qp *qp, enum zs_nak nak)
{
    if (qp->recv_held) {
        enum ibv_wc_status s = nak == ZS_NAK_OP ? IBV_WC_LOC_PROT_ERR : nak == ZS_NAK_INV_REQ ? IBV_WC_LOC_LEN_ERR
                                                                                               : IBV_WC_WR_FLUSH_ERR;
        zs_respond_recv_done(qp, s, IBV_WC_RECV, 0, 0, 0, true);
    }
    qp->msg_active = false;
    zs_qp_error(qp, nak == ZS_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR, nak != ZS_NAK_OP);
}

enum zs_nak zs_respond_atomic(struct zs_qp *qp, enum zs_frame_op op, uint32_t rkey, uint64_t va, uint64_t a, uint64_t b,
                              uint64_t *found)
{
    enum zs_nak nak = zs_respond_check(qp, op, rkey, va, 8);
    if (nak)
        return nak;
    uint64_t *p = zs_mr_hold_remote(ZS_HAZARD_DST, qp, rkey, va, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (!p)
        return ZS_NAK_ACCESS;
    bool there = zs_change(p, op == ZS_OP_FETCH_ADD, a, b, found);
    zs_mr_release(ZS_HAZARD_DST);
    return there ? ZS_NAK_NONE : ZS_NAK_ACCESS;
}

/* The receive of a SEND_WITH_INV that names no window of this queue pair completes with an error. */
bool zs_respond_invalidate(struct zs_qp *qp, uint32_t rkey)
{
    if (zs_window_invalidate(qp, rkey))
        return true;
    zs_respond_recv_done(qp, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RECV, 0, 0, 0, true);
    return false;
}

/* --- requests from a link --------------------------------------------------------------------------------------------------- */

static void attach(struct zs_link *l, struct zs_qp *qp)
{
    if (qp->rlink == l)
        return;
    if (qp->rlink)
        zs_list_del(&qp->rlink_qps);
    qp->rlink = l;
    zs_list_add(&l->qps, &qp->rlink_qps);
    qp->ans_head = qp->ans_tail; /* what was owed to the old link is asked for again if it is still wanted */
}

/* Refuse: the code goes out behind the answers that are owed already. */
static void refuse(struct zs_qp *qp, enum zs_nak nak, uint32_t psn)
{
    qp->nak_code = (uint8_t)nak;
    qp->nak_psn = psn;
    qp->nak_timer = qp->attr.min_rnr_timer;
    qp->nak_sent = true;
    qp->msg_active = false;
    if (nak != ZS_NAK_RNR && nak != ZS_NAK_DROPPED && nak != ZS_NAK_PULL)
        zs_respond_failed(qp, nak);
    zs_ready(qp);
}

static void owe(struct zs_qp *qp, const struct zs_frame *f, uint64_t value)
{
    qp->answers[qp->ans_tail++ % (ZS_MAX_RD_ATOMIC + 1)] = (struct zs_answer){
        .op = f->op, .psn = f->psn, .rkey = f->rkey, .total = f->total, .va = f->va, .value = value};
    zs_ready(qp);
}

static bool answers_full(const struct zs_qp *qp)
{
    return qp->ans_tail - qp->ans_head >= qp->attr.max_dest_rd_atomic;
}

static void begin_read(struct zs_qp *qp, const struct zs_frame *f, bool again)
{
    enum zs_nak nak = answers_full(qp) ? ZS_NAK_INV_REQ : zs_respond_check(qp, ZS_OP_READ, f->rkey, f->va, f->total);
    if (nak) {
        refuse(qp, nak, f->psn);
        return;
    }
    owe(qp, f, 0);
    if (!again)
        qp->epsn = psn_add(qp->epsn, 1);
}

static void begin_atomic(struct zs_qp *qp, const struct zs_frame *f)
{
    uint64_t found = 0;
    enum zs_nak nak = answers_full(qp) ? ZS_NAK_INV_REQ
                                       : zs_respond_atomic(qp, f->op, f->rkey, f->va, f->a, f->b, &found);
    if (nak) {
        refuse(qp, nak, f->psn);
        return;
    }
    owe(qp, f, found);
    qp->epsn = psn_add(qp->epsn, 1);
}

static void begin_message(struct zs_qp *qp, const struct zs_frame *f)
{
    bool wants_recv = f->op == ZS_OP_SEND || f->flags & ZS_F_IMM;
    enum zs_nak nak = ZS_NAK_NONE;
    if (f->op == ZS_OP_WRITE)
        nak = zs_respond_check(qp, ZS_OP_WRITE, f->rkey, f->va, f->total);
    if (!nak && wants_recv)
        nak = zs_respond_take_recv(qp);
    if (!nak && f->op == ZS_OP_SEND && f->total > qp->recv.length)
        nak = ZS_NAK_INV_REQ;
    if (nak) {
        refuse(qp, nak, f->psn);
        return;
    }
    qp->msg_active = true;
    qp->msg_off = 0;
}

static void begin(struct zs_qp *qp, const struct zs_frame *f)
{
    int32_t d = psn_diff(f->psn, qp->epsn);
    if (d > 0) { /* a gap: what lies between was refused, or the two sides disagree about the first number */
        if (!qp->nak_sent)
            refuse(qp, ZS_NAK_DROPPED, f->psn);
        return;
    }
    if (d < 0) { /* seen before: sent again after a lost link */
        if (f->op == ZS_OP_READ)
            begin_read(qp, f, true);
        else if (f->op == ZS_OP_CMP_SWAP || f->op == ZS_OP_FETCH_ADD)
            refuse(qp, ZS_NAK_INV_REQ, f->psn); /* results are not kept: doing it twice would be worse */
        else
            qp->ack_due = true;
        zs_ready(qp);
        return;
    }
    qp->nak_sent = false;
    if (f->op == ZS_OP_READ)
        begin_read(qp, f, false);
    else if (f->op == ZS_OP_CMP_SWAP || f->op == ZS_OP_FETCH_ADD)
        begin_atomic(qp, f);
    else
        begin_message(qp, f);
}

static bool listening(const struct zs_qp *qp, const struct zs_frame *f)
{
    int s = atomic_load_explicit(&qp->state, memory_order_relaxed);
    return (s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD) && qp->attr.dest_qp_num == f->src_qpn;
}

static void drop(struct zs_link *l, const struct zs_frame *f)
{
    struct zs_frame nak = {.op = ZS_OP_NAK, .code = ZS_NAK_DROPPED, .dst_qpn = f->src_qpn, .src_qpn = f->dst_qpn, .psn = f->psn};
    if (f->flags & ZS_F_FIRST)
        zs_link_send(l, &nak, NULL, 0);
}

void zs_responder_frame(struct zs_link *l, struct zs_qp *qp, const struct zs_frame *f)
{
    l->place = ZS_PLACE_NONE;
    if (!qp || !listening(qp, f)) {
        if (!qp || !qp->nak_code) /* a refusal on its way says more */
            drop(l, f);
        return;
    }
    attach(l, qp);
    zs_respond_established(qp);
    if (f->flags & ZS_F_FIRST)
        begin(qp, f);
    if (!qp->msg_active || f->psn != qp->epsn || f->offset != qp->msg_off || f->length > f->total - f->offset)
        return;
    l->place_qp = qp;
    l->place = f->op == ZS_OP_SEND ? ZS_PLACE_RECV : ZS_PLACE_WRITE;
    l->place_at = qp->recv_at;
    l->place_off = 0;
}

void zs_responder_frame_end(struct zs_link *l)
{
    struct zs_qp *qp = l->place_qp;
    const struct zs_frame *f = &l->frame;
    qp->msg_off += f->length;
    qp->recv_at = l->place_at;
    if (f->flags & ZS_F_PULL) { /* nothing else shows the requester that its message is being taken */
        qp->ack_due = true;
        zs_ready(qp);
    }
    if (!(f->flags & ZS_F_LAST))
        return;
    qp->msg_active = false;
    if (f->flags & ZS_F_INV && !zs_respond_invalidate(qp, f->imm)) {
        refuse(qp, ZS_NAK_ACCESS, f->psn);
        return;
    }
    qp->epsn = psn_add(qp->epsn, 1);
    qp->ack_due = true;
    zs_ready(qp);
    if (f->op == ZS_OP_SEND || f->flags & ZS_F_IMM)
        zs_respond_recv_done(qp, IBV_WC_SUCCESS, f->op == ZS_OP_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM, f->total,
                             f->flags & (ZS_F_IMM | ZS_F_INV) ? f->imm : 0,
                             f->flags & ZS_F_IMM ? IBV_WC_WITH_IMM : f->flags & ZS_F_INV ? IBV_WC_WITH_INV : 0,
                             f->flags & ZS_F_SOLICITED);
}

void zs_responder_place_failed(struct zs_qp *qp, const struct zs_frame *f)
{
    refuse(qp, f->op == ZS_OP_SEND ? ZS_NAK_OP : ZS_NAK_ACCESS, f->psn);
}

/* The receive stays taken for the message that comes again. */
void zs_responder_fetch_failed(struct zs_qp *qp, const struct zs_frame *f, bool for_good)
{
    refuse(qp, ZS_NAK_PULL, f->psn);
    qp->nak_timer = for_good;
}

/* --- answers ------------------------------------------------------------------------------------------------------------------- */

static struct zs_frame answer_frame(const struct zs_qp *qp, enum zs_frame_op op, uint32_t psn)
{
    return (struct zs_frame){
        .op = (uint8_t)op, .dst_qpn = qp->attr.dest_qp_num, .src_qpn = qp->qp.qp_num, .psn = psn};
}

/* One frame of the oldest answer; its payload bytes, or -1 when the memory is gone. */
static int64_t send_answer(struct zs_qp *qp, struct zs_answer *a)
{
    struct zs_frame f = answer_frame(qp, a->op == ZS_OP_READ ? ZS_OP_READ_DATA : ZS_OP_ATOMIC_DATA, a->psn);
    uint32_t left = a->total - a->offset, n = left < ZS_PIECE ? left : ZS_PIECE;
    void *data = NULL;
    if (a->op != ZS_OP_READ) {
        f.a = a->value;
        f.flags = ZS_F_FIRST | ZS_F_LAST;
        zs_link_send(qp->rlink, &f, NULL, 0);
        qp->ans_head++;
        return 0;
    }
    if (n) {
        data = zs_mr_hold_remote(ZS_HAZARD_SRC, qp, a->rkey, a->va + a->offset, n, IBV_ACCESS_REMOTE_READ);
        if (!data)
            return -1;
    }
    f.total = a->total;
    f.offset = a->offset;
    f.length = n;
    f.flags = (uint8_t)((a->offset ? 0 : ZS_F_FIRST) | (n == left ? ZS_F_LAST : 0));
    bool there = zs_link_send(qp->rlink, &f, data, n);
    zs_mr_release(ZS_HAZARD_SRC);
    if (!there)
        return -1;
    a->offset += n;
    if (n == left)
        qp->ans_head++;
    return n;
}

static void send_verdict(struct zs_qp *qp)
{
    if (qp->nak_code) {
        struct zs_frame f = answer_frame(qp, ZS_OP_NAK, qp->nak_psn);
        f.code = qp->nak_code;
        f.imm = qp->nak_timer;
        zs_link_send(qp->rlink, &f, NULL, 0);
        qp->nak_code = ZS_NAK_NONE;
        qp->ack_due = false; /* a NAK acknowledges what lies before it */
    } else if (qp->ack_due) {
        struct zs_frame f = answer_frame(qp, ZS_OP_ACK, psn_add(qp->epsn, -1));
        zs_link_send(qp->rlink, &f, NULL, 0);
        qp->ack_due = false;
    }
}

bool zs_responder_run(struct zs_qp *qp)
{
    int64_t bytes = 0;
    if (!qp->rlink || (qp->ans_head == qp->ans_tail && !qp->nak_code && !qp->ack_due))
        return false;
    for (int frames = 0; frames < RUN_FRAMES && bytes < RUN_BYTES; frames++) {
        if (!zs_link_room(qp->rlink)) {
            zs_link_wait(qp->rlink, qp);
            return false;
        }
        if (qp->ans_head == qp->ans_tail) {
            send_verdict(qp);
            return false;
        }
        struct zs_answer *a = &qp->answers[qp->ans_head % (ZS_MAX_RD_ATOMIC + 1)];
        int64_t n = send_answer(qp, a);
        if (n < 0) { /* deregistered since it was checked, or no longer mapped */
            uint32_t psn = a->psn;
            qp->ans_head = qp->ans_tail;
            refuse(qp, ZS_NAK_ACCESS, psn);
        } else {
            bytes += n;
        }
    }
    return true;
}
