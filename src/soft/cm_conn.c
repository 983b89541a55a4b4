/* Connection messages and what they do: REQ, REP, RTU, REJ, DREQ, DREP over one stream a connection. Streams never
 * block, and whoever does not say what is expected of him within its deadline loses his stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm.h"
#include "model.h"

#define CONNECT_NS 10000000000u  /* stream and hello */
#define RESPONSE_NS 70000000000u /* REP: what the kernel's retries add up to */
#define REQ_NS 5000000000u
#define DRAIN_NS 2000000000u
#define TIMEWAIT_NS 200000000u
#define HOLD_BACK_NS 50000000u
#define HOLD_STEP_NS 500000u
#define LISTEN_GRACE_NS 100000000u
#define REDIAL_NS 2000000u

/* --- life of a stream ------------------------------------------------------------------------------------------------------- */

static void conn_release(struct zs_source *s)
{
    free(zs_container(s, struct zs_conn, src));
}

static void conn_drop(struct zs_conn *c)
{
    if (c->id)
        c->id->conn = NULL;
    c->id = NULL;
    zs_timer_clear(&c->timer);
    zs_source_close(&c->src);
}

static void drained_late(struct zs_timer *t)
{
    conn_drop(zs_container(t, struct zs_conn, timer));
}

void zs_conn_close(struct zs_conn *c)
{
    if (c->id)
        c->id->conn = NULL;
    c->id = NULL;
    if (c->tx_len == c->tx_head || c->connecting) {
        conn_drop(c);
        return;
    }
    c->closing = true;
    zs_timer_set(&c->timer, zs_now_ns() + DRAIN_NS, drained_late);
}

static void want(struct zs_conn *c)
{
    bool pending = c->tx_len != c->tx_head || c->connecting;
    zs_source_want(&c->src, (c->connecting ? 0 : EPOLLIN) | (pending ? EPOLLOUT : 0));
}

static void flush(struct zs_conn *c)
{
    if (c->connecting || c->src.dead)
        return;
    while (c->tx_head != c->tx_len) {
        ssize_t n = send(c->src.fd, c->tx + c->tx_head, c->tx_len - c->tx_head, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            break; /* full: EPOLLOUT follows; broken: reading finds out */
        c->tx_head += (uint32_t)n;
    }
    if (c->tx_head == c->tx_len)
        c->tx_head = c->tx_len = 0;
    want(c);
}

static void queue(struct zs_conn *c, const void *data, size_t n)
{
    if (c->tx_len + n > sizeof c->tx) /* cannot be: a connection exchanges fewer messages than fit */
        return;
    memcpy(c->tx + c->tx_len, data, n);
    c->tx_len += (uint32_t)n;
    flush(c);
}

void zs_conn_send(struct zs_conn *c, const struct zs_cm_msg *m)
{
    if (zs_faults_on[ZS_FAULT_CM] && zs_fault(ZS_FAULT_CM))
        shutdown(c->src.fd, SHUT_RDWR); /* its end arrives as that of a peer that died */
    else
        queue(c, m, sizeof *m);
}

static void conn_ready(struct zs_source *s, uint32_t events);

static struct zs_conn *conn_new(int fd, bool active, bool local)
{
    struct zs_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->src.fd = fd;
    c->src.ready = conn_ready;
    c->src.release = conn_release;
    c->active = active;
    c->local = local;
    c->connecting = active && !local;
    zs_list_init(&c->timer.link);
    if (zs_source_add(&c->src, c->connecting ? EPOLLOUT : EPOLLIN)) {
        free(c);
        return NULL;
    }
    return c;
}

/* --- outcomes -------------------------------------------------------------------------------------------------------------------- */

static void qp_to_error(struct zs_id *id)
{
    if (id->zqp)
        zs_qp_error(id->zqp, IBV_EVENT_QP_FATAL, false);
}

static void failed(struct zs_id *id, enum rdma_cm_event_type type, int status, const struct zs_cm_msg *rej)
{
    struct zs_event *e = zs_event_new(id, type, status);
    id->state = CM_FAILED;
    qp_to_error(id);
    if (id->conn)
        zs_conn_close(id->conn);
    if (e && rej)
        zs_event_private(e, rej->private_data, ZS_CM_REJ_PRIVATE);
    if (e)
        zs_event_send(e, id->channel);
}

static void timewait_over(struct zs_timer *t)
{
    zs_event_post(zs_container(t, struct zs_id, timewait), RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void tell_disconnected(struct zs_id *id)
{
    zs_event_post(id, RDMA_CM_EVENT_DISCONNECTED, 0);
    zs_timer_set(&id->timewait, zs_now_ns() + TIMEWAIT_NS, timewait_over);
}

/* The QP stays as it is on the side that did not ask for it: its owner calls rdma_disconnect() or destroys it. */
void zs_cm_disconnected(struct zs_id *id)
{
    if (id->state == CM_DISCONNECTED)
        return;
    id->state = CM_DISCONNECTED;
    tell_disconnected(id);
}

static bool unpolled(struct zs_id *id)
{
    struct zs_qp *qp = id->zqp;
    return qp && zs_qp_state(qp) != IBV_QPS_ERR && (zs_cq_holds(qp->send_cq, qp) || zs_cq_holds(qp->recv_cq, qp));
}

static void hold_back(struct zs_timer *t)
{
    struct zs_id *id = zs_container(t, struct zs_id, timewait);
    uint64_t now = zs_now_ns();
    if (now < id->tell_by_ns && unpolled(id))
        zs_timer_set(t, now + HOLD_STEP_NS, hold_back);
    else
        tell_disconnected(id);
}

/* The peer goes. Its last message comes long before the news on a network; here both can come between two looks of the program,
 * and one that looks for events after completions (libfabric's ofi_rxm) would close the connection with the message unread. So the
 * event waits a moment for what came before it to be polled. */
static void peer_disconnected(struct zs_id *id)
{
    if (id->state == CM_DISCONNECTED)
        return;
    id->state = CM_DISCONNECTED;
    id->tell_by_ns = zs_now_ns() + HOLD_BACK_NS;
    hold_back(&id->timewait);
}

static void redial(struct zs_timer *t);

/* Nobody listens. On a network the REQ comes several round trips after the client began - address, route - and programs whose server
 * says "ready" over TCP and listens then (perftest -R, qperf) live by that; here all of it takes microseconds. So a moment is given. */
static void refused(struct zs_id *id)
{
    if (zs_now_ns() < id->tell_by_ns)
        zs_timer_set(&id->timewait, zs_now_ns() + REDIAL_NS, redial);
    else
        failed(id, RDMA_CM_EVENT_REJECTED, ZS_REJ_INVALID_SERVICE_ID, NULL);
}

/* The stream ended, or said something that makes no sense. */
static void conn_lost(struct zs_conn *c, int error)
{
    struct zs_id *id = c->id;
    bool greeted = c->hello_seen, connecting = c->connecting;
    conn_drop(c);
    if (!id)
        return;
    switch (id->state) {
    case CM_REQ_SENT:
        if (connecting && error == ECONNREFUSED)
            refused(id);
        else if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH)
            failed(id, RDMA_CM_EVENT_UNREACHABLE, -error, NULL);
        else /* another service, or a listener that went away before it answered */
            failed(id, RDMA_CM_EVENT_REJECTED, greeted ? ZS_REJ_CONSUMER_DEFINED : ZS_REJ_INVALID_SERVICE_ID, NULL);
        break;
    case CM_REP_RECEIVED:
    case CM_REP_SENT:
        failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
        break;
    case CM_ESTABLISHED:
        peer_disconnected(id);
        break;
    case CM_DREQ_SENT:
        zs_cm_disconnected(id);
        break;
    default: /* CM_REQ_RECEIVED: rdma_accept() will find out */
        break;
    }
}

static void response_late(struct zs_timer *t)
{
    conn_lost(zs_container(t, struct zs_conn, timer), ETIMEDOUT);
}

/* --- messages -------------------------------------------------------------------------------------------------------------------- */

static void reject(struct zs_conn *c, enum zs_cm_reason reason)
{
    struct zs_cm_msg m = {.type = ZS_CM_REJ, .status = (uint16_t)reason};
    zs_conn_send(c, &m);
    zs_conn_close(c);
}

static struct zs_id *child_of(struct zs_id *listener, const struct zs_cm_msg *m)
{
    struct zs_id *id = zs_id_new(listener->channel, listener->id.context, listener->id.ps, IBV_QPT_RC);
    if (!id)
        return NULL;
    memcpy(id->src.ip, m->dst_addr, 16);
    memcpy(id->dst.ip, m->src_addr, 16);
    id->src_port = m->dst_port;
    id->dst_port = m->src_port;
    id->remote_qpn = m->qpn & ZS_PSN_MASK;
    id->remote_psn = m->psn & ZS_PSN_MASK;
    id->responder_resources = m->initiator_depth;
    id->initiator_depth = m->responder_resources;
    id->retry_count = m->retry_count;
    id->rnr_retry_count = m->rnr_retry_count;
    id->remote_srq = m->srq;
    id->tos = listener->tos;
    id->ack_timeout = listener->ack_timeout;
    id->ack_timeout_set = listener->ack_timeout_set;
    id->state = CM_REQ_RECEIVED;
    zs_id_has_device(id);
    zs_id_publish_route(id);
    return id;
}

static void event_conn(struct zs_event *e, const struct zs_cm_msg *m)
{
    struct rdma_conn_param *p = &e->ev.param.conn;
    p->responder_resources = m->initiator_depth; /* from the receiver's point of view */
    p->initiator_depth = m->responder_resources;
    p->flow_control = m->flow_control;
    p->retry_count = m->retry_count;
    p->rnr_retry_count = m->rnr_retry_count;
    p->srq = m->srq;
    p->qp_num = m->qpn;
}

static void on_req(struct zs_conn *c, const struct zs_cm_msg *m)
{
    struct zs_id *l = zs_cm_find_listener(m);
    if (!l || l->id.ps != m->port_space) {
        reject(c, ZS_REJ_INVALID_SERVICE_ID);
        return;
    }
    struct zs_id *id = l->port->waiting < l->port->backlog ? child_of(l, m) : NULL;
    struct zs_event *e = id ? zs_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;
    if (!e) {
        if (id)
            zs_id_free(id);
        reject(c, ZS_REJ_CONSUMER_DEFINED);
        return;
    }
    zs_timer_clear(&c->timer);
    c->id = id;
    id->conn = c;
    e->ev.listen_id = &l->id;
    e->counted = l;
    event_conn(e, m);
    zs_event_private(e, m->private_data, ZS_CM_REQ_PRIVATE);
    l->port->waiting++;
    zs_event_send(e, l->channel);
}

static void on_rep(struct zs_id *id, const struct zs_cm_msg *m)
{
    zs_timer_clear(&id->conn->timer);
    id->remote_qpn = m->qpn & ZS_PSN_MASK;
    id->remote_psn = m->psn & ZS_PSN_MASK;
    id->responder_resources = m->initiator_depth;
    id->initiator_depth = m->responder_resources;
    id->rnr_retry_count = m->rnr_retry_count;
    id->remote_srq = m->srq;
    bool own_qp = id->zqp != NULL;
    if (own_qp && zs_cm_qp_up(id)) {
        reject(id->conn, ZS_REJ_CONSUMER_DEFINED);
        failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, NULL);
        return;
    }
    struct zs_event *e = zs_event_new(id, own_qp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    id->state = own_qp ? CM_ESTABLISHED : CM_REP_RECEIVED;
    if (own_qp) {
        struct zs_cm_msg rtu = {.type = ZS_CM_RTU};
        zs_conn_send(id->conn, &rtu);
    }
    if (!e)
        return;
    event_conn(e, m);
    zs_event_private(e, m->private_data, ZS_CM_REP_PRIVATE);
    zs_event_send(e, id->channel);
}

void zs_cm_drep(struct zs_id *id)
{
    struct zs_cm_msg drep = {.type = ZS_CM_DREP};
    zs_conn_send(id->conn, &drep);
    zs_conn_close(id->conn);
}

/* The answer is the owner's rdma_disconnect(), or the end of the stream when it destroys the id; until then the peer, who asked,
 * waits. Where both have asked, both have answered. */
static void on_dreq(struct zs_id *id)
{
    if (id->state != CM_DREQ_SENT) {
        peer_disconnected(id);
        return;
    }
    zs_cm_drep(id);
    zs_cm_disconnected(id);
}

static void on_drep(struct zs_id *id)
{
    zs_conn_close(id->conn);
    zs_cm_disconnected(id);
}

/* One row a message: who may receive it in which state. False: the stream is not worth keeping. */
static bool on_message(struct zs_conn *c, const struct zs_cm_msg *m)
{
    struct zs_id *id = c->id;
    enum zs_cm_state s = id ? id->state : CM_IDLE;
    if (m->type == ZS_CM_REQ && !id && !c->active && !c->closing)
        on_req(c, m);
    else if (!id)
        return c->closing;
    else if (m->type == ZS_CM_REP && s == CM_REQ_SENT)
        on_rep(id, m);
    else if (m->type == ZS_CM_RTU && s == CM_REP_SENT) {
        id->state = CM_ESTABLISHED;
        zs_event_post(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    } else if (m->type == ZS_CM_RTU && s == CM_ESTABLISHED)
        return true; /* rdma_notify() was faster */
    else if (m->type == ZS_CM_REJ && (s == CM_REQ_SENT || s == CM_REP_SENT || s == CM_REP_RECEIVED))
        failed(id, RDMA_CM_EVENT_REJECTED, m->status, m);
    else if (m->type == ZS_CM_DREQ && (s == CM_ESTABLISHED || s == CM_REP_SENT || s == CM_DREQ_SENT))
        on_dreq(id);
    else if (m->type == ZS_CM_DREP && s == CM_DREQ_SENT)
        on_drep(id);
    else
        return s == CM_REQ_RECEIVED && m->type == ZS_CM_REJ;
    return true;
}

static bool on_hello(struct zs_conn *c)
{
    struct zs_hello h;
    memcpy(&h, c->rx, sizeof h);
    if (!zs_hello_valid(&h) || h.kind != ZS_KIND_CM)
        return false;
    c->hello_seen = true;
    zs_timer_set(&c->timer, zs_now_ns() + RESPONSE_NS, response_late);
    return true;
}

/* Reads message by message. False: lost, with errno. */
static bool receive(struct zs_conn *c)
{
    while (!c->src.dead) {
        uint32_t size = c->hello_seen ? sizeof(struct zs_cm_msg) : sizeof(struct zs_hello);
        ssize_t n = recv(c->src.fd, c->rx + c->rx_len, size - c->rx_len, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0) {
            errno = ECONNRESET;
            return false;
        }
        c->rx_len += (uint32_t)n;
        if (c->rx_len < size)
            continue;
        c->rx_len = 0;
        struct zs_cm_msg m;
        memcpy(&m, c->rx, sizeof m);
        if (!(c->hello_seen ? on_message(c, &m) : on_hello(c))) {
            errno = EPROTO;
            return false;
        }
    }
    return true;
}

static bool connected(struct zs_conn *c)
{
    int e = 0;
    socklen_t n = sizeof e;
    if (getsockopt(c->src.fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0 || e) {
        errno = e ? e : EIO;
        return false;
    }
    c->connecting = false;
    return true;
}

static void conn_ready(struct zs_source *s, uint32_t events)
{
    struct zs_conn *c = zs_container(s, struct zs_conn, src);
    if (c->connecting && !connected(c)) {
        conn_lost(c, errno);
        return;
    }
    flush(c);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !receive(c)) {
        if (!c->src.dead)
            conn_lost(c, errno);
        return;
    }
    if (!c->src.dead && c->closing && c->tx_head == c->tx_len)
        conn_drop(c);
}

/* --- opening ---------------------------------------------------------------------------------------------------------------------- */

void zs_cm_accept(int fd, bool local, const struct zs_hello *hello)
{
    struct zs_conn *c = conn_new(fd, false, local);
    struct zs_hello h;
    (void)hello;
    if (!c) {
        close(fd);
        return;
    }
    c->hello_seen = true;
    zs_hello_fill(&h, ZS_KIND_CM);
    queue(c, &h, sizeof h);
    zs_timer_set(&c->timer, zs_now_ns() + REQ_NS, response_late);
}

/* 0, also where the outcome is known already: it is told as a network would, by an event; or errno. */
static int dial(struct zs_id *id)
{
    bool local;
    int fd = zs_cm_dial(&id->dst, id->dst_port, &local);
    if (fd == -ECONNREFUSED) {
        refused(id);
        return 0;
    }
    if (fd == -ENETUNREACH || fd == -EHOSTUNREACH) {
        failed(id, RDMA_CM_EVENT_UNREACHABLE, fd, NULL);
        return 0;
    }
    if (fd < 0)
        return -fd;
    struct zs_conn *c = conn_new(fd, true, local);
    if (!c) {
        close(fd);
        return ENOMEM;
    }
    struct zs_hello h;
    c->id = id;
    id->conn = c;
    zs_hello_fill(&h, ZS_KIND_CM);
    queue(c, &h, sizeof h);
    zs_conn_send(c, &id->req);
    zs_timer_set(&c->timer, zs_now_ns() + CONNECT_NS, response_late);
    return 0;
}

static void redial(struct zs_timer *t)
{
    struct zs_id *id = zs_container(t, struct zs_id, timewait);
    int e = dial(id);
    if (e)
        failed(id, RDMA_CM_EVENT_CONNECT_ERROR, -e, NULL);
}

int zs_conn_open(struct zs_id *id, const struct zs_cm_msg *req)
{
    id->req = *req;
    id->tell_by_ns = zs_now_ns() + LISTEN_GRACE_NS;
    return dial(id);
}
