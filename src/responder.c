/* The responder's listener, its one descriptor and the events behind it: see responder.h. Sessions are in session.c, what they say
 * in messages.c, their times in deadlines.c, async events in device_events.c. */
#include "responder.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "responder_private.h"

enum {
    COMPLETIONS_A_CALL = 64, EVENTS_A_CALL = 16,
    BACKLOG = 128,
    CLOSE_TIMEOUT_NS = 500000000,
    GOODBYE_TIMEOUT_NS = 200000000,
};

void responder_log(const struct zc_responder *r, enum zc_log_level level, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!r->params.log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    r->params.log(r->params.log_arg, level, line);
}

/* --- creation --- */

/* rdma_bind_addr(3) answers EADDRNOTAVAIL both for a port that a listener on any address has and for a foreign address. Which of the
 * two it is, another port tells. */
static bool port_is_taken(const struct zc_responder *r, const struct sockaddr *address)
{
    struct sockaddr_storage other = {0};
    struct rdma_cm_id *id;
    memcpy(&other, address, address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)&other)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&other)->sin_port = 0;
    if (zc_cm_id_create(r->channel, NULL, &id, NULL) != 0)
        return false;
    bool taken = rdma_bind_addr(id, (struct sockaddr *)&other) == 0;
    zc_cm_id_destroy(id);
    return taken;
}

static int bind_error(const struct zc_responder *r, const struct sockaddr *wanted, int errnum, struct zc_error *err)
{
    const char *address = r->params.listen_address && r->params.listen_address[0] ? r->params.listen_address : "any address";
    if (errnum == EADDRINUSE || (errnum == EADDRNOTAVAIL && port_is_taken(r, wanted)))
        return zc_error_set(err, ZC_ERR_BUSY, -errnum, "listen", "cannot listen: port %u of %s is in use", r->params.port, address);
    if (errnum == ENODEV || errnum == EADDRNOTAVAIL)
        return zc_error_set(err, ZC_ERR_INVALID, -errnum, "listen", "cannot listen: %s belongs to no RDMA device of this host", address);
    return zc_error_set(err, ZC_ERR_DEVICE, errnum ? -errnum : -EIO, "listen", "cannot listen on port %u of %s: %s", r->params.port,
                        address, strerror(errnum));
}

static int listen_on(struct zc_responder *r, struct sockaddr *address, struct zc_error *err)
{
    int off = 0;
    int rc = zc_cm_id_create(r->channel, NULL, &r->listener, err);
    if (rc)
        return rc;
    if (address->sa_family == AF_INET6)     /* IPv4 too, whatever net.ipv6.bindv6only says */
        rdma_set_option(r->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &off, sizeof(off));
    if (rdma_bind_addr(r->listener, address) == 0 && rdma_listen(r->listener, BACKLOG) == 0) {
        r->port = ntohs(rdma_get_src_port(r->listener));
        return 0;
    }
    rc = bind_error(r, address, errno, err);
    zc_cm_id_destroy(r->listener);
    r->listener = NULL;
    return rc;
}

static int listen_any(struct zc_responder *r, struct zc_error *err)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(r->params.port), .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(r->params.port)};
    if (listen_on(r, (struct sockaddr *)&any6, err) == 0)
        return 0;
    return listen_on(r, (struct sockaddr *)&any, err);      /* a host without IPv6 */
}

static int start_listening(struct zc_responder *r, struct zc_error *err)
{
    const char *text = r->params.listen_address;
    if (!text || !text[0])
        return listen_any(r, err);

    char service[8];
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    snprintf(service, sizeof(service), "%u", r->params.port);
    if (getaddrinfo(text, service, &hints, &found) != 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "listen", "'%.64s' is not a numeric address", text);
    int rc = listen_on(r, found->ai_addr, err);
    freeaddrinfo(found);
    return rc;
}

static int watch(const struct zc_responder *r, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int create_descriptors(struct zc_responder *r, struct zc_error *err)
{
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    r->again_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->async_fd = zc_device_context(r->params.device)->async_fd;
    int flags = fcntl(r->async_fd, F_GETFL);
    if (r->epoll_fd < 0 || r->timer_fd < 0 || r->again_fd < 0 || flags < 0 ||
        fcntl(r->async_fd, F_SETFL, flags | O_NONBLOCK) < 0 || watch(r, r->timer_fd) || watch(r, r->again_fd) ||
        watch(r, r->async_fd) || watch(r, r->channel->fd) || watch(r, zc_completion_fd(r->completion)))
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot watch the responder's descriptors: %m");
    return 0;
}

int zc_responder_create(const struct zc_responder_params *params, struct zc_responder **responder, struct zc_error *err)
{
    if (params->max_sessions < 1 || params->max_qps_per_session < 1 || params->max_qps_per_session > ZC_PEER_QPS_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, params->max_sessions < 1 ? "max_sessions" : "max_qps_per_session",
                            "a responder needs at least one session, and 1 to %d QPs a session", ZC_PEER_QPS_MAX);
    struct zc_responder *r = calloc(1, sizeof(*r));
    if (!r)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a responder");
    r->params = *params;
    if (params->allow)
        r->allow = *params->allow;
    r->params.allow = NULL;
    r->last_id = params->sessions_before;
    r->epoll_fd = r->timer_fd = r->again_fd = -1;

    int rc = sessions_create(r, err);
    if (rc == 0)
        rc = messages_create(r, err);
    if (rc == 0)
        rc = zc_cm_channel_create(&r->channel, err);
    if (rc == 0)
        rc = create_descriptors(r, err);
    if (rc == 0)
        rc = start_listening(r, err);
    if (rc) {
        zc_responder_destroy(r);
        return rc;
    }
    r->params.listen_address = NULL;    /* the caller's text is not kept */
    *responder = r;
    return 0;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void responder_close(struct zc_responder *r, struct session *session, uint16_t status)
{
    if (session->state == SESSION_CLOSING)
        return;
    if (session->state == SESSION_CONNECTING || messages_send_bye(r, session, status) != 0) {
        session_end(r, session, END_CLOSED, "closed here");
        return;
    }
    session->state = SESSION_CLOSING;
    session->bye_status = status;
    session->deadline_ns = zc_now_ns() + CLOSE_TIMEOUT_NS;
    r->deadlines_changed = true;
}

void responder_closed(struct zc_responder *r, struct session *session)
{
    switch (session->bye_status) {
    case ZC_PEER_IDLE:
        session_end(r, session, END_IDLE, "it said nothing for idle_timeout");
        break;
    case ZC_PEER_WRONG_KEY:
        session_end(r, session, END_REFUSED, "its key is another one");
        break;
    default:
        session_end(r, session, END_CLOSED, "closed here");
        break;
    }
}

static void close_sessions(struct zc_responder *r)
{
    uint64_t deadline_ns = zc_now_ns() + GOODBYE_TIMEOUT_NS;
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i])
            responder_close(r, r->sessions[i], ZC_PEER_GOING_AWAY);
    while (r->stats.sessions_open > 0) {
        zc_completion_rearm(r->completion);
        if (messages_process(r, COMPLETIONS_A_CALL) || r->stats.sessions_open == 0)
            continue;
        if (zc_completion_wait(r->completion, -1, deadline_ns) <= 0)
            break;
    }
    for (uint32_t i = 0; i < r->params.max_sessions; i++)
        if (r->sessions[i])
            responder_closed(r, r->sessions[i]);
}

void zc_responder_destroy(struct zc_responder *r)
{
    if (!r)
        return;
    zc_cm_id_destroy(r->listener);
    if (r->sessions && r->completion)
        close_sessions(r);
    close_if_open(r->epoll_fd);
    close_if_open(r->timer_fd);
    close_if_open(r->again_fd);
    if (r->channel)
        rdma_destroy_event_channel(r->channel);
    messages_destroy(r);
    sessions_destroy(r);
    free(r);
}

/* --- events --- */

static void cm_event(struct zc_responder *r, const struct zc_cm_event *event)
{
    struct session_qp *qp = event->id->context;
    switch (event->type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        session_request(r, event);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        if (qp && qp->session->state == SESSION_CLOSING)
            responder_closed(r, qp->session);
        else if (qp)
            session_end(r, qp->session, END_DISCONNECTED, "the peer disconnected");
        break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        if (qp)
            session_end(r, qp->session, END_ERROR, "the peer did not complete the connection");
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        responder_device_lost(r, true, "the device was removed");
        break;
    case RDMA_CM_EVENT_ESTABLISHED:     /* HELLO tells more */
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
    default:
        break;
    }
}

/* Completions first: a BYE says more than the disconnection that follows it. The channels of rdma_cm and of async events are
 * level-triggered and need no reminder. */
void zc_responder_process(struct zc_responder *r)
{
    uint64_t ignored;
    struct zc_cm_event event;
    if (read(r->again_fd, &ignored, sizeof(ignored)) < 0)
        ignored = 0;
    zc_completion_rearm(r->completion);
    if (messages_process(r, COMPLETIONS_A_CALL))
        eventfd_write(r->again_fd, 1);
    for (int i = 0; i < EVENTS_A_CALL && zc_cm_event_next(r->channel, &event) > 0; i++)
        cm_event(r, &event);
    device_events_process(r, EVENTS_A_CALL);
    deadlines_expire(r);
    deadlines_set(r);
}

/* --- for the owner --- */

void zc_responder_refuse(struct zc_responder *r)
{
    r->refusing = true;
}

int zc_responder_fd(const struct zc_responder *r)
{
    return r->epoll_fd;
}

uint16_t zc_responder_port(const struct zc_responder *r)
{
    return r->port;
}

void zc_responder_stats(const struct zc_responder *r, struct zc_responder_stats *stats)
{
    *stats = r->stats;
}

size_t zc_responder_sessions(const struct zc_responder *r, struct zc_session_info *infos, size_t max)
{
    size_t count = 0;
    uint64_t now_ns = zc_now_ns();
    for (uint32_t i = 0; i < r->params.max_sessions; i++) {
        const struct session *session = r->sessions[i];
        if (!session)
            continue;
        if (count < max) {
            struct zc_session_info *info = &infos[count];
            *info = (struct zc_session_info){
                .id = session->id, .qps = session->accepted, .welcomed = session->state >= SESSION_READY,
                .age_s = (double)(now_ns - session->created_ns) / 1e9, .outstanding_reads = session->outstanding_reads};
            snprintf(info->peer, sizeof(info->peer), "%s", session->peer);
        }
        count++;
    }
    return count;
}

bool zc_responder_close_session(struct zc_responder *r, uint64_t id)
{
    struct session *session = session_find(r, id);
    if (!session)
        return false;
    responder_close(r, session, ZC_PEER_OK);
    deadlines_set(r);
    return true;
}
