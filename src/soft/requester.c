/* The requester side of a queue pair whose peer is another process: sends requests over the link in order, completes
 * them as answers come, waits and retries, and flushes. Device thread only, dev.lock held. */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "model.h"

#define RUN_BYTES ZS_PIECE
#define RUN_FRAMES 32
#define NO_TIMEOUT_NS 500000000u /* timeout code 0: no timer. The link is looked after at this interval all the same */
#define LINK_RETRY_NS 20000000u

static int32_t psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

static struct zs_wqe *wqe(struct zs_qp *qp, uint32_t i)
{
    return &qp->sq[i & qp->sq_mask];
}

static uint32_t sq_tail(struct zs_qp *qp)
{
    return atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
}

/* 4.096 us * 2^timeout; a NIC may take up to four times that before it acts (IB specification, 9.7.6.1.3), and a thread
 * that shares its core with others needs the allowance. */
static uint64_t ack_timeout_ns(const struct zs_qp *qp)
{
    return qp->attr.timeout ? 4 * (4096ull << qp->attr.timeout) : NO_TIMEOUT_NS;
}

/* --- waiting and retrying --------------------------------------------------------------------------------------------------- */

static bool outstanding(const struct zs_qp *qp)
{
    return qp->sq_ack != qp->sq_next || qp->send_off || qp->recv_off;
}

static void rewind_to_oldest(struct zs_qp *qp)
{
    qp->sq_next = qp->sq_ack;
    qp->send_off = qp->recv_off = qp->rd_outstanding = 0;
    qp->send_failed = false;
}

static void on_timer(struct zs_timer *t);

static void watch(struct zs_qp *qp, uint64_t now)
{
    if (!qp->timer.armed) {
        qp->progress_ns = now;
        zs_timer_set(&qp->timer, now + ack_timeout_ns(qp), on_timer);
    }
}

/* Bytes that the peer's side of the stream took since the last look are progress too: the answer to a long message comes
 * only at its end. */
static bool still_sending(struct zs_link *l)
{
    int queued = 0;
    if (!l || ioctl(l->src.fd, SIOCOUTQ, &queued) < 0)
        return false;
    bool moved = queued != l->tx_queued;
    l->tx_queued = queued;
    return moved;
}

/* Nothing may be held against the peer while its bytes wait in the socket, or while this thread itself did not run. */
static bool own_fault(const struct zs_qp *qp, uint64_t now, uint64_t limit)
{
    struct pollfd p = {.fd = qp->link ? qp->link->src.fd : -1, .events = POLLIN};
    return now - qp->timer.at_ns > limit / 4 || poll(&p, 1, 0) > 0 || still_sending(qp->link);
}

/* No byte came from the peer for a whole timeout although something is owed. Nothing is sent again, since a stream
 * loses nothing; but each timeout uses up one retry, as on a NIC. */
static void check_silence(struct zs_qp *qp)
{
    uint64_t now = zs_now_ns(), since = qp->progress_ns;
    if (qp->link && qp->link->rx_progress_ns > since)
        since = qp->link->rx_progress_ns;
    uint64_t limit = ack_timeout_ns(qp);
    if (own_fault(qp, now, limit))
        since = qp->progress_ns = now;
    if (now - since < limit || !qp->attr.timeout) {
        zs_timer_set(&qp->timer, (qp->attr.timeout ? since : now) + limit, on_timer);
        return;
    }
    if (!qp->retries_left) {
        zs_requester_fail(qp, wqe(qp, qp->sq_ack), IBV_WC_RETRY_EXC_ERR);
        return;
    }
    qp->retries_left--;
    qp->progress_ns = now;
    zs_timer_set(&qp->timer, now + limit, on_timer);
}

static void on_timer(struct zs_timer *t)
{
    struct zs_qp *qp = zs_container(t, struct zs_qp, timer);
    if (qp->wait != ZS_WAIT_NONE) {
        qp->wait = ZS_WAIT_NONE;
        zs_ready(qp);
    } else if (zs_qp_state(qp) != IBV_QPS_ERR && outstanding(qp)) {
        check_silence(qp);
    }
}

static void pause_for(struct zs_qp *qp, enum zs_wait why, uint64_t ns)
{
    rewind_to_oldest(qp);
    qp->wait = why;
    zs_timer_set(&qp->timer, zs_now_ns() + ns, on_timer);
}

bool zs_requester_rnr(struct zs_qp *qp, unsigned int timer_code)
{
    if (qp->attr.rnr_retry != 7) { /* 7 is for ever */
        if (!qp->rnr_left) {
            zs_requester_fail(qp, wqe(qp, qp->sq_ack), IBV_WC_RNR_RETRY_EXC_ERR);
            return false;
        }
        qp->rnr_left--;
    }
    pause_for(qp, ZS_WAIT_RNR, zs_rnr_ns(timer_code));
    return true;
}

bool zs_requester_retry(struct zs_qp *qp, uint64_t pause_ns)
{
    if (!qp->retries_left) {
        if (sq_tail(qp) != qp->sq_ack)
            zs_requester_fail(qp, wqe(qp, qp->sq_ack), IBV_WC_RETRY_EXC_ERR);
        return false;
    }
    qp->retries_left--;
    pause_for(qp, ZS_WAIT_RETRY, pause_ns ? pause_ns : ack_timeout_ns(qp) / 4);
    return true;
}

void zs_requester_link_lost(struct zs_qp *qp)
{
    if (zs_qp_state(qp) == IBV_QPS_ERR || sq_tail(qp) == qp->sq_ack)
        return;
    uint64_t pause = ack_timeout_ns(qp) / 4;
    zs_requester_retry(qp, pause < LINK_RETRY_NS ? pause : LINK_RETRY_NS);
}

/* Another process has the port now: the one this QP was connected to is gone for good. */
void zs_requester_peer_is(struct zs_qp *qp, uint64_t instance)
{
    uint64_t was = qp->peer_instance;
    qp->peer_instance = instance;
    if (was && was != instance && zs_qp_state(qp) != IBV_QPS_ERR && sq_tail(qp) != qp->sq_ack)
        zs_requester_fail(qp, wqe(qp, qp->sq_ack), IBV_WC_RETRY_EXC_ERR);
}

/* --- sending ------------------------------------------------------------------------------------------------------------------ */

static struct zs_frame make_frame(const struct zs_qp *qp, const struct zs_wqe *w)
{
    struct zs_frame f = {
        .op = (uint8_t)zs_frame_op_of(w),
        .dst_qpn = qp->attr.dest_qp_num,
        .src_qpn = qp->qp.qp_num,
        .psn = w->psn,
        .total = w->length,
        .rkey = w->rkey,
        .va = w->remote_addr,
        .a = w->compare_add,
        .b = w->swap,
        .imm = w->imm,
    };
    if (w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        f.flags |= ZS_F_IMM;
    if (w->opcode == IBV_WR_SEND_WITH_INV)
        f.flags |= ZS_F_INV;
    if (w->flags & IBV_SEND_SOLICITED)
        f.flags |= ZS_F_SOLICITED;
    return f;
}

/* A local error: the WR fails in its turn, after those before it; nothing behind it is sent. */
static void fail_in_turn(struct zs_qp *qp, struct zs_wqe *w, enum ibv_wc_status status)
{
    w->status = (uint8_t)status;
    qp->send_failed = true;
    if (qp->sq_ack == qp->sq_next)
        zs_requester_fail(qp, w, status);
}

static void message_sent(struct zs_qp *qp)
{
    qp->sq_next++;
    qp->send_off = 0;
}

/* The payload stays where it is: the peer is told where. */
static void offer(struct zs_qp *qp, struct zs_frame *f, const struct zs_cursor *c, const void *data)
{
    f->flags |= ZS_F_PULL;
    f->a = (uintptr_t)data;
    f->b = c->sge[c->index].lkey;
    f->qp_slot = qp->qp.handle;
    zs_link_send(qp->link, f, NULL, 0);
}

/* The next frame of a SEND or WRITE. Returns the payload bytes, or -1 after a local error. */
static int64_t send_payload(struct zs_qp *qp, struct zs_wqe *w)
{
    struct zs_frame f = make_frame(qp, w);
    struct zs_cursor c;
    void *data = NULL;
    size_t n = 0, want = w->length - qp->send_off;
    bool there = true, offered = zs_direct_offer(qp, w);
    uint32_t most = offered ? ZS_PULL_PIECE : ZS_PIECE;
    if (want) {
        zs_cursor_start(&c, qp, w, qp->send_off);
        data = zs_cursor_hold(&c, ZS_HAZARD_SRC, qp->pd, 0, want < most ? want : most, &n);
        if (!data) {
            fail_in_turn(qp, w, IBV_WC_LOC_PROT_ERR);
            return -1;
        }
    }
    f.offset = qp->send_off;
    f.length = (uint32_t)n;
    f.flags |= (uint8_t)((qp->send_off ? 0 : ZS_F_FIRST) | (n == want ? ZS_F_LAST : 0));
    if (offered)
        offer(qp, &f, &c, data);
    else
        there = zs_link_send(qp->link, &f, data, n);
    zs_mr_release(ZS_HAZARD_SRC);
    if (!there) {
        fail_in_turn(qp, w, IBV_WC_LOC_PROT_ERR);
        return -1;
    }
    qp->send_off += (uint32_t)n;
    if (n == want)
        message_sent(qp);
    return (int64_t)n;
}

static void send_request(struct zs_qp *qp, struct zs_wqe *w)
{
    struct zs_frame f = make_frame(qp, w);
    f.flags |= ZS_F_FIRST | ZS_F_LAST;
    zs_link_send(qp->link, &f, NULL, 0);
    qp->rd_outstanding++;
    message_sent(qp);
}

/* May sq[sq_next] be started now? */
static bool may_start(struct zs_qp *qp, struct zs_wqe *w)
{
    if (zs_qp_state(qp) == IBV_QPS_SQD)
        return false;
    if (w->flags & IBV_SEND_FENCE && qp->rd_outstanding)
        return false;
    if (zs_model.on && zs_model_holds(qp, w))
        return false;
    if (zs_wqe_is_read(w) && !qp->attr.max_rd_atomic) {
        fail_in_turn(qp, w, IBV_WC_LOC_QP_OP_ERR); /* it could never be sent */
        return false;
    }
    return !zs_wqe_is_read(w) || qp->rd_outstanding < qp->attr.max_rd_atomic;
}

static void tell_drained(struct zs_qp *qp)
{
    if (zs_qp_state(qp) == IBV_QPS_SQD && !outstanding(qp) && !qp->sq_drained_told) {
        qp->sq_drained_told = true;
        if (qp->attr.en_sqd_async_notify)
            zs_async_event(qp->qp.context, IBV_EVENT_SQ_DRAINED, &qp->qp);
    }
}

static bool link_usable(struct zs_qp *qp)
{
    if (!qp->link) {
        int e = zs_link_get(qp);
        if (e) {
            zs_requester_retry(qp, LINK_RETRY_NS);
            return false;
        }
        if (zs_qp_state(qp) == IBV_QPS_ERR)
            return false;
    }
    if (qp->link->state == ZS_LINK_UP && zs_link_room(qp->link))
        return true;
    zs_link_wait(qp->link, qp);
    return false;
}

static void after_completion(struct zs_qp *qp);

/* The payload bytes, or -1 when the QP failed. A READ that cannot be done this way starts again over the stream, where a
 * refusal gets its proper name. */
static int64_t read_direct(struct zs_qp *qp, struct zs_wqe *w)
{
    int64_t bytes = 0;
    unsigned int batch = zs_model.on ? 0 : zs_direct_read_batch(qp, sq_tail(qp));
    for (unsigned int i = 0; i < batch; i++) {
        bytes += wqe(qp, qp->sq_ack)->length;
        qp->sq_next++;
        zs_requester_complete(qp, wqe(qp, qp->sq_ack), IBV_WC_SUCCESS);
    }
    if (batch) {
        after_completion(qp);
        return zs_qp_state(qp) == IBV_QPS_ERR ? -1 : bytes;
    }
    int64_t n = zs_direct_read(qp, w);
    if (zs_qp_state(qp) == IBV_QPS_ERR)
        return -1;
    if (n < 0) {
        w->no_direct = true;
        qp->recv_off = 0;
        return 0;
    }
    qp->recv_off += (uint32_t)n;
    if (qp->recv_off == w->length) {
        qp->recv_off = 0;
        qp->sq_next++;
        zs_requester_complete(qp, w, IBV_WC_SUCCESS);
        after_completion(qp);
    } else {
        qp->progress_ns = zs_now_ns();
    }
    return zs_qp_state(qp) == IBV_QPS_ERR ? -1 : n;
}

/* True if there is more to send and room for it. */
static bool send_some(struct zs_qp *qp)
{
    int64_t bytes = 0;
    for (int frames = 0; frames < RUN_FRAMES && bytes < RUN_BYTES; frames++) {
        if (qp->send_failed || qp->sq_next == sq_tail(qp))
            return false;
        struct zs_wqe *w = wqe(qp, qp->sq_next);
        if (zs_wqe_is_local(w)) {
            if (qp->sq_ack != qp->sq_next || zs_qp_state(qp) != IBV_QPS_RTS)
                return false; /* after everything before it */
            zs_window_run(qp, w);
            continue;
        }
        bool begun = qp->send_off || (qp->recv_off && qp->sq_ack == qp->sq_next); /* sent in part, or pulled in part */
        if (!begun && !may_start(qp, w))
            return false;
        if (!link_usable(qp))
            return false;
        if (w->opcode == IBV_WR_RDMA_READ && zs_direct_possible(qp, w)) {
            if (qp->sq_ack != qp->sq_next || !qp->link->hello_seen)
                return false; /* after what was sent before it, and not before the peer has said who it is */
            int64_t n = read_direct(qp, w);
            if (n < 0)
                return false;
            bytes += n;
            continue;
        }
        if (!w->sent) {
            w->psn = qp->psn;
            qp->psn = (qp->psn + 1) & ZS_PSN_MASK;
            w->sent = true;
        }
        if (zs_wqe_is_read(w)) {
            send_request(qp, w);
        } else {
            int64_t n = send_payload(qp, w);
            if (n < 0)
                return false;
            bytes += n;
        }
    }
    return true;
}

bool zs_requester_run(struct zs_qp *qp)
{
    int state = zs_qp_state(qp);
    if (state == IBV_QPS_ERR) {
        zs_flush(qp);
        return false;
    }
    if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || qp->wait != ZS_WAIT_NONE)
        return false;
    bool more = qp->peer_here ? zs_local_run(qp) : send_some(qp);
    if (!qp->peer_here && qp->wait == ZS_WAIT_NONE && zs_qp_state(qp) != IBV_QPS_ERR && outstanding(qp))
        watch(qp, zs_now_ns());
    tell_drained(qp);
    return more;
}

/* --- answers --------------------------------------------------------------------------------------------------------------------- */

static void after_completion(struct zs_qp *qp)
{
    qp->retries_left = qp->attr.retry_cnt;
    qp->rnr_left = qp->attr.rnr_retry;
    if (qp->send_failed && qp->sq_ack == qp->sq_next)
        zs_requester_fail(qp, wqe(qp, qp->sq_ack), wqe(qp, qp->sq_ack)->status);
    else
        zs_ready(qp);
}

/* Completes what lies before `psn`, and with `inclusive` psn itself. False if a READ or atomic stands in the way. */
static bool acknowledge(struct zs_qp *qp, uint32_t psn, bool inclusive)
{
    while (qp->sq_ack != qp->sq_next) {
        struct zs_wqe *w = wqe(qp, qp->sq_ack);
        int32_t d = psn_diff(w->psn, psn);
        if (d > 0 || (d == 0 && !inclusive))
            break;
        if (zs_wqe_is_read(w))
            return false;
        zs_requester_complete(qp, w, IBV_WC_SUCCESS);
    }
    return true;
}

static bool oldest_is(struct zs_qp *qp, uint32_t psn)
{
    uint32_t end = qp->send_off ? qp->sq_next + 1 : qp->sq_next;
    return qp->sq_ack != end && wqe(qp, qp->sq_ack)->psn == psn;
}

/* From the oldest on everything is sent again; what the peer has seen of it since, it has ignored. */
static void send_by_stream(struct zs_qp *qp, bool for_good)
{
    wqe(qp, qp->sq_ack)->no_direct = true;
    qp->link->no_pull |= for_good;
    rewind_to_oldest(qp);
    zs_ready(qp);
}

static void on_nak(struct zs_qp *qp, const struct zs_frame *f)
{
    if (!acknowledge(qp, f->psn, false) || !oldest_is(qp, f->psn))
        return; /* of something that has been given up since */
    if (f->code == ZS_NAK_RNR)
        zs_requester_rnr(qp, f->imm);
    else if (f->code == ZS_NAK_DROPPED)
        zs_requester_retry(qp, 0);
    else if (f->code == ZS_NAK_PULL)
        send_by_stream(qp, f->imm);
    else
        zs_requester_fail(qp, wqe(qp, qp->sq_ack), zs_nak_status(f->code));
}

static void on_atomic_data(struct zs_qp *qp, const struct zs_frame *f)
{
    struct zs_wqe *w = wqe(qp, qp->sq_ack);
    struct zs_cursor c;
    size_t done = 0;
    uint8_t value[8];
    memcpy(value, &f->a, sizeof value);
    qp->rd_outstanding--;
    zs_cursor_start(&c, qp, w, 0);
    while (done < sizeof value) {
        size_t n;
        void *to = zs_cursor_hold(&c, ZS_HAZARD_DST, qp->pd, IBV_ACCESS_LOCAL_WRITE, sizeof value - done, &n);
        bool there = to && zs_move(to, value + done, n);
        zs_mr_release(ZS_HAZARD_DST);
        if (!there) {
            zs_requester_fail(qp, w, IBV_WC_LOC_PROT_ERR);
            return;
        }
        zs_cursor_skip(&c, n);
        done += n;
    }
    zs_requester_complete(qp, w, IBV_WC_SUCCESS);
    after_completion(qp);
}

void zs_requester_frame(struct zs_link *l, struct zs_qp *qp, const struct zs_frame *f)
{
    int state = zs_qp_state(qp);
    l->place = ZS_PLACE_NONE;
    if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || qp->link != l || qp->wait != ZS_WAIT_NONE)
        return;
    switch (f->op) {
    case ZS_OP_ACK:
        acknowledge(qp, f->psn, true);
        after_completion(qp);
        break;
    case ZS_OP_NAK:
        on_nak(qp, f);
        break;
    case ZS_OP_READ_DATA:
        acknowledge(qp, f->psn, false);
        if (oldest_is(qp, f->psn) && wqe(qp, qp->sq_ack)->opcode == IBV_WR_RDMA_READ && f->offset == qp->recv_off &&
            f->length <= wqe(qp, qp->sq_ack)->length - qp->recv_off) {
            l->place = ZS_PLACE_READ;
            l->place_qp = qp;
            zs_cursor_start(&l->place_at, qp, wqe(qp, qp->sq_ack), qp->recv_off);
        }
        break;
    case ZS_OP_ATOMIC_DATA:
        acknowledge(qp, f->psn, false);
        if (oldest_is(qp, f->psn) && zs_wqe_is_read(wqe(qp, qp->sq_ack)) && wqe(qp, qp->sq_ack)->opcode != IBV_WR_RDMA_READ)
            on_atomic_data(qp, f);
        break;
    default:
        break;
    }
}

void zs_requester_frame_end(struct zs_link *l)
{
    struct zs_qp *qp = l->place_qp;
    const struct zs_frame *f = &l->frame;
    qp->recv_off += f->length;
    struct zs_wqe *w = wqe(qp, qp->sq_ack);
    if (!(f->flags & ZS_F_LAST))
        return;
    if (qp->recv_off != w->length) {
        zs_requester_fail(qp, w, IBV_WC_BAD_RESP_ERR);
        return;
    }
    qp->recv_off = 0;
    qp->rd_outstanding--;
    zs_requester_complete(qp, w, IBV_WC_SUCCESS);
    after_completion(qp);
}

/* The memory an answer should go to failed its check. */
void zs_requester_place_failed(struct zs_qp *qp)
{
    zs_requester_fail(qp, wqe(qp, qp->sq_ack), IBV_WC_LOC_PROT_ERR);
}
