/* SEND/RECV between daemons, the responder's half: one shared receive queue and one CQ for all sessions, two outgoing messages a
 * session. All memory is registered at creation; nothing is allocated for a message. Called by responder.c. */
#include <errno.h>
#include <string.h>

#include "counters.h"
#include "post.h"
#include "responder_private.h"

enum { RECEIVES_MIN = 16, RECEIVES_MAX = 1024, SENDS_PER_SESSION = 2 };

/* wr_id: a receive is its index in messages[]; a send is SEND_TAG, BYE_TAG where it is one, and the session's id. The opcode of a
 * failed completion is undefined (ibv_poll_cq(3)), so that the id alone must tell. */
#define SEND_TAG (UINT64_C(1) << 63)
#define BYE_TAG (UINT64_C(1) << 62)

static struct ibv_sge message_sge(const struct zc_responder *r, uint64_t index)
{
    return (struct ibv_sge){.addr = (uint64_t)(uintptr_t)&r->messages[index], .length = sizeof(r->messages[index]),
                            .lkey = r->mr->lkey};
}

static int post_receive(struct zc_responder *r, uint64_t index)
{
    struct ibv_sge sge = message_sge(r, index);
    struct ibv_recv_wr wr;
    zc_wr_recv(&wr, index, &sge, 1);
    return zc_post_srq_recv(r->srq, &wr, NULL, NULL);
}

static uint32_t receive_count(const struct zc_responder *r)
{
    struct ibv_device_attr attr;
    uint32_t count = r->params.max_sessions < RECEIVES_MAX / 2 ? r->params.max_sessions * 2 : RECEIVES_MAX;
    if (count < RECEIVES_MIN)
        count = RECEIVES_MIN;
    if (ibv_query_device(zc_device_context(r->params.device), &attr) == 0 && attr.max_srq_wr > 0 && count > (uint32_t)attr.max_srq_wr)
        count = (uint32_t)attr.max_srq_wr;
    return count;
}

int messages_create(struct zc_responder *r, struct zc_error *err)
{
    r->receives = receive_count(r);
    size_t messages = r->receives + (size_t)SENDS_PER_SESSION * r->params.max_sessions;
    int rc = zc_buffer_create(messages * sizeof(struct zc_peer_message), -1, &r->page, err);
    if (rc)
        return rc;
    r->messages = r->page.address;
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

int messages_send(struct zc_responder *r, struct session *session, uint16_t type, uint16_t status)
{
    bool bye = type == ZC_PEER_BYE;
    uint64_t index = r->receives + (uint64_t)SENDS_PER_SESSION * session->slot + bye;
    struct zc_peer_message *message = &r->messages[index];
    *message = (struct zc_peer_message){
        .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = type, .session = session->key, .status = status};
    if (type == ZC_PEER_WELCOME) {
        message->region_address = zc_region_address(r->params.region);
        message->region_size = zc_region_size(r->params.region);
        message->pattern_seed = zc_region_seed(r->params.region);
        message->rkey = zc_region_rkey(r->params.region);
    }
    zc_peer_message_swap(message);

    struct ibv_sge sge = message_sge(r, index);
    struct ibv_send_wr wr;
    zc_wr_send(&wr, SEND_TAG | (bye ? BYE_TAG : 0) | session->id, &sge, 1, IBV_SEND_SIGNALED);
    return zc_post_send(session->qps[0].id->qp, &wr, NULL, NULL);
}

static void hello(struct zc_responder *r, struct session *session)
{
    if (session->state != SESSION_CONNECTING) {
        session_end(r, session, END_ERROR, "it said HELLO twice");
        return;
    }
    if (session->accepted != session->qp_count) {
        session_end(r, session, END_ERROR, "it said HELLO before all of its QPs were connected");
        return;
    }
    if (messages_send(r, session, ZC_PEER_WELCOME, ZC_PEER_OK) != 0) {
        session_end(r, session, END_ERROR, "WELCOME could not be sent");
        return;
    }
    session->state = SESSION_READY;
    session->deadline_ns = UINT64_MAX;
    r->deadlines_changed = true;
    responder_log(r, ZC_LOG_INFO, "session %llu (%s): open with %u QPs, %u READs outstanding on each", (unsigned long long)session->id,
                  session->peer, session->qp_count, session->outstanding_reads);
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
    struct session *session = qp->session;
    if (wc->status != IBV_WC_SUCCESS)
        session_end(r, session, END_ERROR, ibv_wc_status_str(wc->status));
    else if (wc->byte_len != sizeof(message) || message.magic != ZC_PEER_MAGIC || message.version != ZC_PEER_VERSION ||
             message.session != session->key || qp != &session->qps[0])
        session_end(r, session, END_ERROR, "it sent a message that makes no sense");
    else if (message.type == ZC_PEER_HELLO)
        hello(r, session);
    else if (message.type == ZC_PEER_BYE)
        session_end(r, session, END_BYE, "it said BYE");
    else
        session_end(r, session, END_ERROR, "it sent a message of an unknown type");
}

static void send_completed(struct zc_responder *r, const struct ibv_wc *wc)
{
    struct session *session = session_find(r, wc->wr_id & ~(SEND_TAG | BYE_TAG));
    if (!session)
        return;
    if (session->state == SESSION_CLOSING && (wc->wr_id & BYE_TAG || wc->status != IBV_WC_SUCCESS))
        session_end(r, session, END_CLOSED, "closed here");
    else if (wc->status != IBV_WC_SUCCESS)
        session_end(r, session, END_ERROR, ibv_wc_status_str(wc->status));
}

bool messages_process(struct zc_responder *r, int budget)
{
    struct ibv_wc wcs[16];
    while (budget > 0) {
        int count = zc_completion_poll(r->completion, budget < 16 ? budget : 16, wcs);
        if (count <= 0)
            return false;
        for (int i = 0; i < count; i++) {
            if (wcs[i].wr_id & SEND_TAG)
                send_completed(r, &wcs[i]);
            else
                receive_completed(r, &wcs[i]);
        }
        budget -= count;
    }
    return true;
}
