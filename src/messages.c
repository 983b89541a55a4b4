/* SEND/RECV between daemons, the responder's half: one shared receive queue and one CQ for all sessions, and outgoing messages that
 * belong to a session's slot. All memory is registered at creation; nothing is allocated for a message. Called by responder.c. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "counters.h"
#include "post.h"
#include "responder_private.h"

enum { RECEIVES_MIN = 16, RECEIVES_MAX = 4096, SENDS_PER_SESSION = 5 /* as many as the control QP has slots */ };

/* wr_id: a receive is its index in messages[]; of everything else the top byte is a kind and the rest the session's id. The opcode of
 * a failed completion is undefined (ibv_poll_cq(3)), so that the id alone must tell. */
enum send_kind { SEND_NONE, SEND_MESSAGE, SEND_BYE, SEND_BIND, SEND_PROBE };
enum { KIND_SHIFT = 56 };

static uint64_t send_id(enum send_kind kind, const struct session *session)
{
    return (uint64_t)kind << KIND_SHIFT | session->id;
}

static struct ibv_sge sge_of(const struct zc_responder *r, void *message, size_t length)
{
    return (struct ibv_sge){.addr = (uint64_t)(uintptr_t)message, .length = (uint32_t)length, .lkey = r->mr->lkey};
}

static int post_receive(struct zc_responder *r, uint64_t index)
{
    struct ibv_sge sge = sge_of(r, &r->messages[index], sizeof(r->messages[index]));
    struct ibv_recv_wr wr;
    zc_wr_recv(&wr, index, &sge, 1);
    return zc_post_srq_recv(r->srq, &wr, NULL, NULL);
}

/* As many as all sessions together have credits, within limits. */
static uint32_t receive_count(const struct zc_responder *r)
{
    struct ibv_device_attr attr;
    uint32_t count = r->params.max_sessions < RECEIVES_MAX / ZC_PEER_CREDITS ? r->params.max_sessions * ZC_PEER_CREDITS : RECEIVES_MAX;
    if (count < RECEIVES_MIN)
        count = RECEIVES_MIN;
    if (ibv_query_device(zc_device_context(r->params.device), &attr) == 0 && attr.max_srq_wr > 0 && count > (uint32_t)attr.max_srq_wr)
        count = (uint32_t)attr.max_srq_wr;
    return count;
}

int messages_create(struct zc_responder *r, struct zc_error *err)
{
    r->receives = receive_count(r);
    const size_t incoming = r->receives * sizeof(struct zc_peer_message);
    int rc = zc_buffer_create(incoming + r->params.max_sessions * sizeof(struct session_out), -1, &r->page, err);
    if (rc)
        return rc;
    r->messages = r->page.address;
    r->outs = (struct session_out *)(void *)&r->messages[r->receives];
    rc = zc_mr_register(r->params.device, r->messages, r->page.length_bytes, IBV_ACCESS_LOCAL_WRITE, "session messages", &r->mr, err);
    if (rc)
        return rc;

    /* A session that has just ended may have left completions behind while its slot's next one sends: twice the sends. */
    rc = zc_completion_create(r->params.device, (int)(r->receives + 2 * SENDS_PER_SESSION * r->params.max_sessions), &r->completion,
                              err);
    if (rc)
        return rc;
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = r->receives, .max_sge = 1}};
    r->srq = ibv_create_srq(zc_device_pd(r->params.device), &attr);
    if (!r->srq)
        return zc_error_set(err, ZC_ERR_RESOURCE, errno ? -errno : -EIO, NULL, "cannot create a shared receive queue of %u entries: %m",
                            r->receives);
    zc_count(&zc_counters.srqs, 1);
    for (uint64_t i = 0; i < r->receives; i++) {
        rc = post_receive(r, i);
        if (rc)
            return zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "cannot post to the shared receive queue: %s", strerror(-rc));
    }
    rc = zc_completion_rearm(r->completion);
    return rc ? zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "cannot arm the sessions' completion queue: %s", strerror(-rc)) : 0;
}

void messages_destroy(struct zc_responder *r)
{
    if (r->srq && ibv_destroy_srq(r->srq) == 0)
        zc_count(&zc_counters.srqs, -1);
    zc_completion_destroy(r->completion);
    zc_mr_deregister(r->mr);
    zc_buffer_destroy(&r->page);
}

/* --- going out --- */

static int send_out(struct zc_responder *r, struct session *session, enum send_kind kind, void *message, size_t length)
{
    struct ibv_sge sge = sge_of(r, message, length);
    struct ibv_send_wr wr;
    zc_wr_send(&wr, send_id(kind, session), &sge, 1, IBV_SEND_SIGNALED);
    return zc_post_send(session->qps[0].id->qp, &wr, NULL, NULL);
}

static int send_challenge(struct zc_responder *r, struct session *session)
{
    struct zc_peer_message *message = &r->outs[session->slot].challenge;
    *message = (struct zc_peer_message){.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = ZC_PEER_CHALLENGE,
                                        .session = session->auth.session};
    auth_nonce(session->auth.responder_nonce);
    memcpy(message->proof, session->auth.responder_nonce, sizeof(message->proof));
    zc_peer_message_swap(message);
    return send_out(r, session, SEND_MESSAGE, message, sizeof(*message));
}

static int send_welcome(struct zc_responder *r, struct session *session)
{
    const struct zc_region *region = r->params.region;
    struct zc_peer_welcome *welcome = &r->outs[session->slot].welcome;
    *welcome = (struct zc_peer_welcome){
        .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = ZC_PEER_WELCOME, .session = session->auth.session,
        .region_address = zc_region_address(region), .region_size = zc_region_size(region), .pattern_seed = zc_region_seed(region),
        .alive_ms = r->params.idle_timeout_ms / ZC_PEER_CREDITS, .active_mtu = zc_device_info(r->params.device)->active_mtu};
    for (uint32_t i = 0; i < session->qp_count; i++)
        welcome->rkeys[i] = session->qps[i].mw ? session->qps[i].rkey : zc_region_mr(region)->rkey;
    zc_peer_welcome_swap(welcome);
    if (r->params.key)
        auth_sign_welcome(r->params.key, &session->auth, welcome);
    return send_out(r, session, SEND_MESSAGE, welcome, sizeof(*welcome));
}

int messages_send_bye(struct zc_responder *r, struct session *session, uint16_t status)
{
    struct zc_peer_message *message = &r->outs[session->slot].bye;
    *message = (struct zc_peer_message){.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = ZC_PEER_BYE,
                                        .session = session->auth.session, .status = status};
    zc_peer_message_swap(message);
    return send_out(r, session, SEND_BYE, message, sizeof(*message));
}

int messages_send_probe(struct session *session)
{
    struct ibv_send_wr wr = {.wr_id = send_id(SEND_PROBE, session), .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    return zc_post_send(session->qps[0].id->qp, &wr, NULL, NULL);
}

/* --- coming to WELCOME --- */

static void welcome(struct zc_responder *r, struct session *session)
{
    if (send_welcome(r, session) != 0) {
        session_end(r, session, END_ERROR, "WELCOME could not be sent");
        return;
    }
    session->state = SESSION_READY;
    session_heard(r, session);
    responder_log(r, ZC_LOG_INFO, "session %llu (%s): open with %u QPs, %u READs outstanding on each", (unsigned long long)session->id,
                  session->peer, session->qp_count, session->outstanding_reads);
}

/* One binding at a time, so that a session needs one entry of the CQ for all of its QPs. */
static void bind_next(struct zc_responder *r, struct session *session)
{
    if (session->bound == session->qp_count)
        welcome(r, session);
    else if (windows_bind(r, session, send_id(SEND_BIND, session)) != 0)
        session_end(r, session, END_ERROR, "the device has no memory window for it");
}

static void admit(struct zc_responder *r, struct session *session)
{
    session->state = SESSION_BINDING;
    if (zc_region_scope(r->params.region) == ZC_RKEY_SESSION)
        bind_next(r, session);
    else
        welcome(r, session);
}

static void hello(struct zc_responder *r, struct session *session, const struct zc_peer_message *message)
{
    if (session->accepted != session->qp_count) {
        session_end(r, session, END_ERROR, "it said HELLO before all of its QPs were connected");
        return;
    }
    memcpy(session->auth.requester_nonce, message->proof, sizeof(message->proof));
    if (!r->params.key) {
        admit(r, session);
        return;
    }
    session->state = SESSION_PROVING;
    if (send_challenge(r, session) != 0)
        session_end(r, session, END_ERROR, "CHALLENGE could not be sent");
}

static void proof(struct zc_responder *r, struct session *session, const struct zc_peer_message *message)
{
    if (auth_proof_is_right(r->params.key, &session->auth, message->proof)) {
        admit(r, session);
        return;
    }
    session_refused(r, session->host, ZC_PEER_WRONG_KEY, "its pre-shared key is another one (key_file)");
    responder_close(r, session, ZC_PEER_WRONG_KEY);
}

/* --- coming in --- */

static void alive(struct zc_responder *r, struct session *session, const struct zc_peer_message *message)
{
    (void)message;
    session_heard(r, session);
}

/* What a session may say in each state, besides BYE. A message that crosses our own BYE is nobody's fault. */
static const struct {
    uint16_t type;      /* enum zc_peer_type; 0: nothing */
    void (*handle)(struct zc_responder *r, struct session *session, const struct zc_peer_message *message);
} turns[SESSION_STATES] = {
    [SESSION_CONNECTING] = {ZC_PEER_HELLO, hello},
    [SESSION_PROVING] = {ZC_PEER_PROOF, proof},
    [SESSION_READY] = {ZC_PEER_ALIVE, alive},
};

static void said(struct zc_responder *r, struct session *session, const struct zc_peer_message *message)
{
    if (message->type == ZC_PEER_BYE)
        session_end(r, session, END_BYE, "it said BYE");
    else if (session->state == SESSION_CLOSING)
        return;
    else if (message->type == turns[session->state].type)
        turns[session->state].handle(r, session, message);
    else if (message->type == ZC_PEER_HELLO)
        session_end(r, session, END_ERROR, "it said HELLO twice");
    else
        session_end(r, session, END_ERROR, "it sent a message out of turn");
}

/* Time gives a credit for each ALIVE that is due, twice over; who sends more would take the receives of the others. */
static bool take_credit(const struct zc_responder *r, struct session *session)
{
    const uint64_t now_ns = zc_now_ns(), a_credit_ns = (uint64_t)r->params.idle_timeout_ms * 1000000u / ZC_PEER_CREDITS / 2;
    while (a_credit_ns > 0 && session->credits < ZC_PEER_CREDITS && now_ns - session->credited_ns >= a_credit_ns) {
        session->credited_ns += a_credit_ns;
        session->credits++;
    }
    if (session->credits == ZC_PEER_CREDITS)
        session->credited_ns = now_ns;
    if (session->credits == 0)
        return false;
    session->credits--;
    return true;
}

static bool makes_sense(const struct session_qp *qp, const struct ibv_wc *wc, const struct zc_peer_message *message)
{
    const struct session *session = qp->session;
    return wc->byte_len == sizeof(*message) && message->magic == ZC_PEER_MAGIC && message->version == ZC_PEER_VERSION &&
           message->session == session->auth.session && qp == &session->qps[0];
}

static void receive_completed(struct zc_responder *r, const struct ibv_wc *wc)
{
    struct zc_peer_message message = r->messages[wc->wr_id];
    zc_peer_message_swap(&message);
    if (post_receive(r, wc->wr_id) != 0)
        responder_log(r, ZC_LOG_ERROR, "a receive could not be posted again; %u are left at most", r->receives - 1);

    struct session_qp *qp = session_find_qp(r, wc->qp_num);
    if (!qp)
        return;     /* of a session that is gone already */
    if (wc->status != IBV_WC_SUCCESS)
        session_end(r, qp->session, END_ERROR, ibv_wc_status_str(wc->status));
    else if (!makes_sense(qp, wc, &message))
        session_end(r, qp->session, END_ERROR, "it sent a message that makes no sense");
    else if (!take_credit(r, qp->session))
        session_end(r, qp->session, END_ERROR, "it sent more messages than it has credits");
    else
        said(r, qp->session, &message);
}

static void send_failed(struct zc_responder *r, struct session *session, enum send_kind kind, const struct ibv_wc *wc)
{
    if (session->state == SESSION_CLOSING)
        responder_closed(r, session);
    else if (kind == SEND_PROBE)
        session_end(r, session, END_UNREACHABLE, "keep-alive was not answered");
    else
        session_end(r, session, END_ERROR, ibv_wc_status_str(wc->status));
}

static void send_completed(struct zc_responder *r, const struct ibv_wc *wc)
{
    const enum send_kind kind = (enum send_kind)(wc->wr_id >> KIND_SHIFT);
    struct session *session = session_find(r, wc->wr_id & ((UINT64_C(1) << KIND_SHIFT) - 1));
    if (!session)
        return;
    if (wc->status != IBV_WC_SUCCESS) {
        send_failed(r, session, kind, wc);
    } else if (kind == SEND_BYE) {
        responder_closed(r, session);
    } else if (kind == SEND_PROBE) {
        session_probed(r, session);
    } else if (kind == SEND_BIND && session->state == SESSION_BINDING) {
        session->bound++;
        bind_next(r, session);
    }
}

bool messages_process(struct zc_responder *r, int budget)
{
    struct ibv_wc wcs[16];
    while (budget > 0) {
        int count = zc_completion_poll(r->completion, budget < 16 ? budget : 16, wcs);
        if (count <= 0)
            return false;
        for (int i = 0; i < count; i++) {
            if (wcs[i].wr_id >> KIND_SHIFT != SEND_NONE)
                send_completed(r, &wcs[i]);
            else
                receive_completed(r, &wcs[i]);
        }
        budget -= count;
    }
    return true;
}
