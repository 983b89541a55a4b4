/* The sessions that a responder has accepted: which request becomes a QP of which session, how a QP is found again by its number,
 * and how a session ends as a whole. Called by responder.c and messages.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "counters.h"
#include "responder_private.h"

/* The control QP: CHALLENGE, a window's binding, WELCOME, a keep-alive, BYE. The others: a window's binding. */
enum { CONTROL_SEND_SLOTS = 5, OTHER_SEND_SLOTS = 1 };
static const uint64_t LOGGED_NS = UINT64_C(60000000000);

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

/* The answer to a request: a status and, where a limit is reached, which number it is. */
struct verdict {
    uint16_t status;
    uint32_t limit;
};

static struct session *find_by_key(const struct zc_responder *r, uint64_t key, const char *host)
{
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i] && r->sessions[i]->auth.session == key && strcmp(r->sessions[i]->host, host) == 0)
            return r->sessions[i];
    return NULL;
}

static uint32_t sessions_of(const struct zc_responder *r, const char *host)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        count += r->sessions[i] && strcmp(r->sessions[i]->host, host) == 0;
    return count;
}

static uint32_t free_slot(const struct zc_responder *r)
{
    uint32_t slot = 0;
    while (slot < r->params.max_sessions && r->sessions[slot])
        slot++;
    return slot;
}

static struct verdict create_session(struct zc_responder *r, const struct zc_peer_request *request, struct rdma_cm_id *id,
                                     const char *host, struct session **session)
{
    const uint32_t slot = free_slot(r), of_peer = r->params.max_sessions_per_peer;
    if (of_peer > 0 && sessions_of(r, host) >= of_peer)
        return (struct verdict){ZC_PEER_TOO_MANY_OF_PEER, of_peer};
    if (slot == r->params.max_sessions)
        return (struct verdict){ZC_PEER_TOO_MANY, r->params.max_sessions};
    struct session *s = calloc(1, sizeof(*s) + request->qp_count * sizeof(s->qps[0]));
    if (!s)
        return (struct verdict){ZC_PEER_NO_MEMORY, 0};
    s->state = SESSION_CONNECTING;
    s->id = ++r->last_id;
    s->auth.session = request->session;
    s->slot = slot;
    zc_cm_address_text(rdma_get_peer_addr(id), s->peer);
    memcpy(s->host, host, sizeof(s->host));
    s->created_ns = s->credited_ns = zc_now_ns();
    s->credits = ZC_PEER_CREDITS;
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
    return (struct verdict){ZC_PEER_OK, 0};
}

static struct verdict check_request(const struct zc_responder *r, const struct zc_cm_event *event, struct zc_peer_request *request)
{
    const struct sockaddr *from = rdma_get_peer_addr(event->id);
    if (r->allow.count > 0 && !zc_networks_contain(&r->allow, from))
        return (struct verdict){ZC_PEER_NOT_ALLOWED, 0};
    if (r->refusing)
        return (struct verdict){ZC_PEER_GOING_AWAY, 0};
    if (event->private_length < sizeof(*request))
        return (struct verdict){ZC_PEER_BAD_REQUEST, 0};
    memcpy(request, event->private_data, sizeof(*request));
    zc_peer_request_swap(request);
    if (request->magic != ZC_PEER_MAGIC)
        return (struct verdict){ZC_PEER_BAD_REQUEST, 0};
    if (request->version != ZC_PEER_VERSION)
        return (struct verdict){ZC_PEER_BAD_VERSION, 0};
    if (request->qp_count == 0 || request->qp_index >= request->qp_count)
        return (struct verdict){ZC_PEER_BAD_REQUEST, 0};
    if (request->qp_count > r->params.max_qps_per_session)
        return (struct verdict){ZC_PEER_TOO_MANY_QPS, r->params.max_qps_per_session};
    if (event->id->verbs != zc_device_context(r->params.device))
        return (struct verdict){ZC_PEER_OTHER_DEVICE, 0};
    return (struct verdict){ZC_PEER_OK, 0};
}

/* On ZC_PEER_OK also which QP of which session this will be. */
static struct verdict admit(struct zc_responder *r, const struct zc_cm_event *event, const char *host, struct session_qp **qp)
{
    struct zc_peer_request request;
    struct verdict verdict = check_request(r, event, &request);
    if (verdict.status != ZC_PEER_OK)
        return verdict;
    struct session *session = find_by_key(r, request.session, host);
    if (!session && request.qp_index == 0)
        verdict = create_session(r, &request, event->id, host, &session);
    if (verdict.status != ZC_PEER_OK)
        return verdict;
    if (!session || session->state != SESSION_CONNECTING || session->qp_count != request.qp_count ||
        session->qps[request.qp_index].id)
        return (struct verdict){ZC_PEER_BAD_REQUEST, 0};
    *qp = &session->qps[request.qp_index];
    return verdict;
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
    struct rdma_conn_param param;
    rc = zc_conn_param_accept(&param, at_most(event->initiator_depth, zc_cm_initiator_depth(r->params.device)),
                              at_most(event->responder_resources, zc_cm_responder_depth(r->params.device)), &answer, sizeof(answer));
    if (rc)
        return zc_error_set(err, ZC_ERR_INTERNAL, rc, NULL, "an answer has more than %d bytes of private data", ZC_ACCEPT_PRIVATE_MAX);
    if (rdma_accept(qp->id, &param) != 0)
        return zc_error_set(err, ZC_ERR_DEVICE, errno ? -errno : -EIO, NULL, "rdma_accept: %m");
    zc_cm_set_rnr_timer(qp->id->qp);
    session->accepted++;
    if (param.responder_resources < session->outstanding_reads)
        session->outstanding_reads = param.responder_resources;
    return 0;
}

/* --- refusing --- */

/* The entry of this host and status, or the one that is free the soonest. */
static struct refusal *find_refusal(struct zc_responder *r, const char *host, uint16_t status)
{
    struct refusal *oldest = &r->refusals[0];
    for (struct refusal *at = r->refusals; at < r->refusals + REFUSALS; at++) {
        if (at->status == status && strcmp(at->host, host) == 0)
            return at;
        if (at->until_ns < oldest->until_ns)
            oldest = at;
    }
    return oldest;
}

void session_refused(struct zc_responder *r, const char *host, uint16_t status, const char *text)
{
    const uint64_t now_ns = zc_now_ns();
    struct refusal *refusal = find_refusal(r, host, status);
    const bool known = refusal->status == status && strcmp(refusal->host, host) == 0;
    if (known && refusal->until_ns > now_ns)
        return;
    *refusal = (struct refusal){.status = status, .until_ns = now_ns + LOGGED_NS};
    snprintf(refusal->host, sizeof(refusal->host), "%s", host);
    responder_log(r, ZC_LOG_WARNING, "refused %s: %s (not logged again for a minute)", host, text);
}

static void reject(struct zc_responder *r, struct rdma_cm_id *id, const char *host, struct verdict verdict)
{
    struct zc_peer_answer answer = {
        .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .status = verdict.status, .limit = verdict.limit};
    zc_peer_answer_swap(&answer);
    r->stats.sessions_refused++;
    session_refused(r, host, verdict.status,
                    verdict.status == ZC_PEER_BAD_REQUEST ? "its request is none of this protocol" :
                    verdict.status == ZC_PEER_NOT_ALLOWED ? "its address is not allowed (allow)" :
                    verdict.status == ZC_PEER_OTHER_DEVICE ? "it came over another RDMA device than this daemon's" :
                    zc_peer_status_limit(verdict.status) ? zc_peer_status_limit(verdict.status) : zc_peer_status_text(verdict.status));
    rdma_reject(id, &answer, sizeof(answer));
    zc_cm_id_destroy(id);
}

void session_request(struct zc_responder *r, const struct zc_cm_event *event)
{
    struct session_qp *qp = NULL;
    struct zc_error err;
    char host[ZC_NAME_MAX] = "";
    uint16_t port;
    zc_cm_id_adopt(event->id);
    event->id->context = NULL;
    zc_cm_address_split(rdma_get_peer_addr(event->id), host, sizeof(host), &port);
    struct verdict verdict = admit(r, event, host, &qp);
    if (verdict.status != ZC_PEER_OK) {
        reject(r, event->id, host, verdict);
        return;
    }
    struct session *session = qp->session;
    if (accept_qp(r, event, qp, &err) == 0)
        return;
    if (!qp->id)
        reject(r, event->id, host, (struct verdict){ZC_PEER_NO_MEMORY, 0});
    session_end(r, session, END_ERROR, err.message);
}

/* --- the end --- */

static void count_end(struct zc_responder_stats *stats, enum session_end end)
{
    uint64_t *const counters[] = {
        [END_BYE] = &stats->ended_bye, [END_DISCONNECTED] = &stats->ended_disconnected, [END_ERROR] = &stats->ended_error,
        [END_CLOSED] = &stats->ended_closed, [END_TIMEOUT] = &stats->ended_timeout, [END_IDLE] = &stats->ended_idle,
        [END_UNREACHABLE] = &stats->ended_unreachable, [END_REFUSED] = &stats->sessions_refused,
    };
    (*counters[end])++;
    stats->sessions_open--;
}

static enum zc_log_level level_of(enum session_end end)
{
    switch (end) {
    case END_ERROR:
    case END_TIMEOUT:
    case END_UNREACHABLE:
        return ZC_LOG_WARNING;
    case END_REFUSED:       /* session_refused() has said so, or has not because it did a moment ago */
        return ZC_LOG_DEBUG;
    default:
        return ZC_LOG_INFO;
    }
}

/* Windows go first: nobody reads from here on, and a QP with a window bound to it may refuse to go. */
void session_end(struct zc_responder *r, struct session *session, enum session_end end, const char *why)
{
    responder_log(r, level_of(end), "session %llu (%s): ended: %s", (unsigned long long)session->id, session->peer, why);
    count_end(&r->stats, end);
    r->sessions[session->slot] = NULL;
    r->deadlines_changed = true;

    windows_free(session);
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
