/* What comes in on a link: hello, frames, payload. Payload goes from the socket to where it belongs without a copy of
 * ours where possible; the memory is looked up again for every read, because it may have been deregistered meanwhile. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "soft.h"

#define RX_SIZE 16384u
#define TURN_BYTES 262144u

static uint8_t scratch[16384];

static bool answer_op(uint8_t op)
{
    return op == ZS_OP_READ_DATA || op == ZS_OP_ATOMIC_DATA || op == ZS_OP_ACK || op == ZS_OP_NAK;
}

static bool frame_valid(const struct zs_link *l, const struct zs_frame *f)
{
    bool message = f->op == ZS_OP_SEND || f->op == ZS_OP_WRITE;
    bool payload = message || f->op == ZS_OP_READ_DATA;
    uint32_t most = f->flags & ZS_F_PULL ? ZS_PULL_PIECE : ZS_PIECE;
    if (!f->op || f->op >= ZS_OP_MAX || answer_op(f->op) != l->outgoing || f->code >= ZS_NAK_MAX)
        return false;
    if (f->total > ZS_MAX_MSG || f->psn > ZS_PSN_MASK || (f->flags & ZS_F_PULL && !message))
        return false;
    return payload ? f->length <= most && f->offset <= f->total && f->length <= f->total - f->offset : !f->length;
}

/* --- payload --------------------------------------------------------------------------------------------------------------- */

static void *place_hold(struct zs_link *l, size_t want, size_t *got)
{
    struct zs_qp *qp = l->place_qp;
    const struct zs_frame *f = &l->frame;
    *got = want;
    if (l->place == ZS_PLACE_WRITE)
        return zs_mr_hold_remote(ZS_HAZARD_DST, qp, f->rkey, f->va + f->offset + l->place_off, want, IBV_ACCESS_REMOTE_WRITE);
    return zs_cursor_hold(&l->place_at, ZS_HAZARD_DST, qp->pd, IBV_ACCESS_LOCAL_WRITE, want, got);
}

static void place_advance(struct zs_link *l, size_t n)
{
    zs_mr_release(ZS_HAZARD_DST);
    if (l->place != ZS_PLACE_WRITE)
        zs_cursor_skip(&l->place_at, n);
    l->place_off += (uint32_t)n;
    l->frame_left -= (uint32_t)n;
}

static void place_failed(struct zs_link *l)
{
    struct zs_qp *qp = l->place_qp;
    bool read = l->place == ZS_PLACE_READ;
    l->place = ZS_PLACE_NONE;
    if (read)
        zs_requester_place_failed(qp);
    else
        zs_responder_place_failed(qp, &l->frame);
}

/* The queue pair may have failed since the frame began. */
static void place_check(struct zs_link *l)
{
    if (l->place != ZS_PLACE_NONE && (!l->place_qp || zs_qp_state(l->place_qp) == IBV_QPS_ERR))
        l->place = ZS_PLACE_NONE;
}

static void take_buffered(struct zs_link *l)
{
    size_t n = l->rx_tail - l->rx_head;
    if (n > l->frame_left)
        n = l->frame_left;
    if (l->place != ZS_PLACE_NONE) {
        size_t got;
        void *to = place_hold(l, n, &got);
        if (!to) {
            place_failed(l);
            return;
        }
        if (!zs_move(to, l->rx + l->rx_head, got)) {
            zs_mr_release(ZS_HAZARD_DST);
            place_failed(l);
            return;
        }
        place_advance(l, got);
        n = got;
    } else {
        l->frame_left -= (uint32_t)n;
    }
    l->rx_head += (uint32_t)n;
}

/* The next run of a payload that lies in the requester's memory. */
static void fetch(struct zs_link *l)
{
    struct zs_qp *qp = l->place_qp;
    size_t got;
    if (l->place == ZS_PLACE_NONE) {
        l->frame_left = 0;
        return;
    }
    void *to = place_hold(l, l->frame_left, &got);
    if (!to) {
        place_failed(l);
        return;
    }
    if (zs_direct_fetch(l, to, got)) {
        l->pulled += (uint32_t)got;
        place_advance(l, got);
        return;
    }
    zs_mr_release(ZS_HAZARD_DST);
    l->place = ZS_PLACE_NONE;
    zs_responder_fetch_failed(qp, &l->frame, !l->peer_pid);
}

/* As recv(): bytes, 0 at the end, -1 with errno. */
static ssize_t take_direct(struct zs_link *l)
{
    size_t got = l->frame_left < sizeof scratch ? l->frame_left : sizeof scratch;
    if (l->place == ZS_PLACE_NONE) {
        ssize_t n = recv(l->src.fd, scratch, got, MSG_DONTWAIT);
        if (n > 0)
            l->frame_left -= (uint32_t)n;
        return n;
    }
    void *to = place_hold(l, l->frame_left, &got);
    if (!to) {
        place_failed(l);
        return 1; /* nothing was read; come again and throw away */
    }
    ssize_t n = recv(l->src.fd, to, got, MSG_DONTWAIT);
    int e = errno;
    place_advance(l, n > 0 ? (size_t)n : 0);
    if (n < 0 && e == EFAULT) { /* registered, but no longer there */
        place_failed(l);
        return 1;
    }
    errno = e;
    return n;
}

/* --- frames ------------------------------------------------------------------------------------------------------------------- */

static void frame_end(struct zs_link *l)
{
    l->in_frame = false;
    place_check(l);
    if (l->place == ZS_PLACE_READ)
        zs_requester_frame_end(l);
    else if (l->place != ZS_PLACE_NONE)
        zs_responder_frame_end(l);
    l->place = ZS_PLACE_NONE;
}

static bool frame_begin(struct zs_link *l)
{
    memcpy(&l->frame, l->rx + l->rx_head, sizeof l->frame);
    l->rx_head += sizeof l->frame;
    if (!frame_valid(l, &l->frame))
        return false;
    l->in_frame = true;
    l->frame_left = l->frame.length;
    l->place = ZS_PLACE_NONE;
    l->place_off = 0;
    struct zs_qp *qp = zs_qp_by_num(l->frame.dst_qpn);
    if (!l->outgoing)
        zs_responder_frame(l, qp, &l->frame);
    else if (qp)
        zs_requester_frame(l, qp, &l->frame);
    return true;
}

static bool take_hello(struct zs_link *l)
{
    struct zs_hello h;
    memcpy(&h, l->rx + l->rx_head, sizeof h);
    l->rx_head += sizeof h;
    if (!zs_hello_valid(&h) || h.kind != ZS_KIND_LINK)
        return false;
    l->hello_seen = true;
    l->peer_instance = h.instance;
    zs_direct_peer(l, &h);
    zs_timer_clear(&l->timer);
    for (struct zs_list *i = l->qps.next, *n; i != &l->qps; i = n) {
        n = i->next;
        struct zs_qp *qp = zs_container(i, struct zs_qp, link_qps);
        zs_requester_peer_is(qp, h.instance);
        zs_ready(qp); /* it may have waited to know how to read */
    }
    return true;
}

/* Consumes whatever is complete in the buffer, up to the share of a turn. */
static bool parse(struct zs_link *l)
{
    static_assert(sizeof(struct zs_hello) == sizeof(struct zs_frame), "one size to wait for");
    for (;;) {
        if (l->in_frame) {
            place_check(l);
            if (!l->frame_left)
                frame_end(l);
            else if (l->frame.flags & ZS_F_PULL)
                fetch(l);
            else if (l->rx_head != l->rx_tail)
                take_buffered(l);
            else
                return true;
        } else {
            if (l->rx_tail - l->rx_head < sizeof l->frame || l->pulled >= TURN_BYTES)
                return true;
            if (!(l->hello_seen ? frame_begin(l) : take_hello(l)))
                return false;
        }
    }
}

static ssize_t fill(struct zs_link *l)
{
    memmove(l->rx, l->rx + l->rx_head, l->rx_tail - l->rx_head);
    l->rx_tail -= l->rx_head;
    l->rx_head = 0;
    ssize_t n = recv(l->src.fd, l->rx + l->rx_tail, RX_SIZE - l->rx_tail, MSG_DONTWAIT);
    if (n > 0)
        l->rx_tail += (uint32_t)n;
    return n;
}

bool zs_link_receive(struct zs_link *l)
{
    uint32_t bytes = 0;
    l->pulled = 0;
    if (!parse(l)) /* what the turn before left */
        return false;
    while (bytes + l->pulled < TURN_BYTES) {
        bool direct = l->in_frame && l->frame_left >= sizeof scratch && l->rx_head == l->rx_tail;
        ssize_t n = direct ? take_direct(l) : fill(l);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        if (!bytes)
            l->rx_progress_ns = zs_now_ns();
        bytes += (uint32_t)n;
        if (!parse(l))
            return false;
        if (!l->outgoing && !zs_link_room(l))
            break;
    }
    if (l->pulled >= TURN_BYTES)
        zs_link_more(l);
    return true;
}
