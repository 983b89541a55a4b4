/* The sessions that a responder has accepted: which request becomes a QP of which session, how a QP is found again by its number,
 * and how a session ends as a whole. Called by responder.c and messages.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "counters.h"
#include "responder_private.h"

enum { CONTROL_SEND_SLOTS = 4, OTHER_SEND_SLOTS = 1 };

int sessions_create(struct zc_responder *r, struct zc_error *err)
{
    uint64_t qps = (uint64_t)r->params.max_sessions * r->params.max_qps_per_session;
    uint32_t buckets = 64;
    while (buckets < qps && buckets < 65536)
        buckets *= 2;
    r->hash_mask = buckets - 1;
    r->hash = calloc(buckets, sizeof(struct session_qp *));
    r->sessions = calloc(r->params.max_sessions, sizeof(struct session *));
    return r->hash && r->sessions ? 0 : zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %u sessions",
                                                     r->params.max_sessions);
}

void sessions_destroy(struct zc_responder *r)
{
    free(r->sessions);
    free(r->hash);
}

/* --- by number --- */

static void hash_add(struct zc_responder *r, struct session_qp *qp)
{
    struct session_qp **bucket = &r->hash[qp->qp_num & r->hash_mask];
    qp->hash_next = *bucket;
    *bucket = qp;
}

static void hash_remove(struct zc_responder *r, const struct session_qp *qp)
{
    struct session_qp **at = &r->hash[qp->qp_num & r->hash_mask];
    while (*at && *at != qp)
        at = &(*at)->hash_next;
    if (*at)
        *at = qp->hash_next;
}

struct session_qp *session_find_qp(const struct zc_responder *r, uint32_t qp_num)
{
    struct session_qp *qp = r->hash[qp_num & r->hash_mask];
    while (qp && qp->qp_num != qp_num)
        qp = qp->hash_next;
    return qp;
}

struct session *session_find(const struct zc_responder *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i] && r->sessions[i]->id == id)
            return r->sessions[i];
    return NULL;
}

/* --- a connection request --- */

static struct session *find_by_key(const struct zc_responder *r, uint64_t key, const char *host)
{
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i] && r->sessions[i]->key == key && strcmp(r->sessions[i]->host, host) == 0)
            return r->sessions[i];
    return NULL;
}

static uint16_t create_session(struct zc_responder *r, const struct zc_peer_request *request, struct rdma_cm_id *id, const char *host,
                               struct session **session)
{
    uint32_t slot = 0;
    while (slot < r->params.max_sessions && r->sessions[slot])
        slot++;
    if (slot == r->params.max_sessions)
        return ZC_PEER_TOO_MANY;
    struct session *s = calloc(1, sizeof(*s) + request->qp_count * sizeof(s->qps[0]));
    if (!s)
        return ZC_PEER_NO_MEMORY;
    s->state = SESSION_CONNECTING;
    s->id = ++r->last_id;
    s->key = request->session;
    s->slot = slot;
    zc_cm_address_text(rdma_get_peer_addr(id), s->peer);
    memcpy(s->host, host, sizeof(s->host));
    s->created_ns = zc_now_ns();
    s->deadline_ns = s->created_ns + (uint64_t)r->params.hello_timeout_ms * 1000000u;
    s->outstanding_reads = UINT8_MAX;
    s->qp_count = request->qp_count;
    for (uint32_t i = 0; i < s->qp_count; i++)
        s->qps[i].session = s;
    r->sessions[slot] = s;
    r->deadlines_changed = true;
    r->stats.sessions_open++;
    r->stats.sessions_total++;
    *session = s;
    return ZC_PEER_OK;
}

/* A status for the peer, and on ZC_PEER_OK which QP of which session this will be. */
static uint16_t admit(struct zc_responder *r, const struct zc_cm_event *event, struct session_qp **qp)
{
    struct zc_peer_request request;
    if (event->private_length < sizeof(request))
        return ZC_PEER_BAD_REQUEST;
    memcpy(&request, event->private_data, sizeof(request));
    zc_peer_request_swap(&request);
    if (request.magic != ZC_PEER_MAGIC)
        return ZC_PEER_BAD_REQUEST;
    if (request.version != ZC_PEER_VERSION)
        return ZC_PEER_BAD_VERSION;
    if (request.qp_count == 0 || request.qp_index >= request.qp_count)
        return ZC_PEER_BAD_REQUEST;
    if (request.qp_count > r->params.max_qps_per_session)
        return ZC_PEER_TOO_MANY;
    if (event->id->verbs != zc_device_context(r->params.device))
        return ZC_PEER_BAD_REQUEST;

    char host[ZC_NAME_MAX] = "";
    uint16_t port, status = ZC_PEER_OK;
    zc_cm_address_split(rdma_get_peer_addr(event->id), host, sizeof(host), &port);
    struct session *session = find_by_key(r, request.session, host);
    if (!session && request.qp_index == 0)
        status = create_session(r, &request, event->id, host, &session);
    if (status != ZC_PEER_OK)
        return status;
    if (!session || session->state != SESSION_CONNECTING || session->qp_count != request.qp_count ||
        session->qps[request.qp_index].id)
        return ZC_PEER_BAD_REQUEST;
    *qp = &session->qps[request.qp_index];
    return ZC_PEER_OK;
}

static uint8_t at_most(uint8_t value, uint8_t limit)
{
    return value < limit ? value : limit;
}

static int accept_qp(struct zc_responder *r, const struct zc_cm_event *event, struct session_qp *qp, struct zc_error *err)
{
    struct session *session = qp->session;
    struct ibv_cq *cq = zc_completion_cq(r->completion);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .srq = r->srq,
        .cap = {.max_send_wr = qp == &session->qps[0] ? CONTROL_SEND_SLOTS : OTHER_SEND_SLOTS, .max_send_sge = 1},
    };
    int rc = zc_cm_qp_create(r->params.device, event->id, &attr, err);
    if (rc)
        return rc;
    qp->id = event->id;
    qp->id->context = qp;
    qp->qp_num = qp->id->qp->qp_num;
    hash_add(r, qp);

    /* The event speaks from here: READs that the peer wants answered, READs that it would answer. We send none. */
    struct zc_peer_answer answer = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .status = ZC_PEER_OK};
    zc_peer_answer_swap(&answer);
    struct rdma_conn_param param = {
        .private_data = &answer, .private_data_len = sizeof(answer),
        .responder_resources = at_most(event->responder_resources, zc_cm_responder_depth(r->params.device)),
        .initiator_depth = at_most(event->initiator_depth, zc_cm_initiator_depth(r->params.device)),
        .rnr_retry_count = ZC_CM_RNR_RETRIES,
    };
    if (rdma_accept(qp->id, &param) != 0)
        return zc_error_set(err, ZC_ERR_DEVICE, errno ? -errno : -EIO, NULL, "rdma_accept: %m");
    zc_cm_set_rnr_timer(qp->id->qp);
    session->accepted++;
    if (param.responder_resources < session->outstanding_reads)
        session->outstanding_reads = param.responder_resources;
    return 0;
}

static void reject(struct zc_responder *r, struct rdma_cm_id *id, uint16_t status)
{
    char peer[ZC_CM_NAME_MAX];
    struct zc_peer_answer answer = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .status = status};
    zc_peer_answer_swap(&answer);
    r->stats.sessions_refused++;
    responder_log(r, ZC_LOG_WARNING, "refused %s: %s", zc_cm_address_text(rdma_get_peer_addr(id), peer),
                  status == ZC_PEER_BAD_REQUEST ? "its request is none of this protocol" : zc_peer_status_text(status));
    rdma_reject(id, &answer, sizeof(answer));
    zc_cm_id_destroy(id);
}

void session_request(struct zc_responder *r, const struct zc_cm_event *event)
{
    struct session_qp *qp = NULL;
    struct zc_error err;
    zc_cm_id_adopt(event->id);
    event->id->context = NULL;
    uint16_t status = admit(r, event, &qp);
    if (status != ZC_PEER_OK) {
        reject(r, event->id, status);
        return;
    }
    struct session *session = qp->session;
    if (accept_qp(r, event, qp, &err) == 0)
        return;
    if (!qp->id)
        reject(r, event->id, ZC_PEER_NO_MEMORY);
    session_end(r, session, END_ERROR, err.message);
}

/* --- the end --- */

void session_end(struct zc_responder *r, struct session *session, enum session_end end, const char *why)
{
    uint64_t *const counters[] = {
        [END_BYE] = &r->stats.ended_bye, [END_DISCONNECTED] = &r->stats.ended_disconnected, [END_ERROR] = &r->stats.ended_error,
        [END_TIMEOUT] = &r->stats.ended_timeout, [END_CLOSED] = &r->stats.ended_closed,
    };
    responder_log(r, end == END_ERROR || end == END_TIMEOUT ? ZC_LOG_WARNING : ZC_LOG_INFO, "session %llu (%s): ended: %s",
                  (unsigned long long)session->id, session->peer, why);
    (*counters[end])++;
    r->stats.sessions_open--;
    r->sessions[session->slot] = NULL;
    r->deadlines_changed = true;

    for (uint32_t i = 0; i < session->qp_count; i++)
        if (session->qps[i].id)
            rdma_disconnect(session->qps[i].id);
    for (uint32_t i = 0; i < session->qp_count; i++) {
        if (!session->qps[i].id)
            continue;
        hash_remove(r, &session->qps[i]);
        zc_cm_id_destroy(session->qps[i].id);
    }
    free(session);
}
