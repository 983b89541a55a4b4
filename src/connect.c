/* How one QP of a connection gets connected: address, route, QP, request, answer - each a step that waits for one rdma_cm event
 * with a deadline. Called by connection.c. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "connection_private.h"

static int no_answer(const struct zc_connection *c, struct zc_error *err)
{
    char note[ZC_PORT_NOTE_MAX];
    return zc_error_set(err, ZC_ERR_PEER, -ETIMEDOUT, "peer", "peer %s gave no answer within %u ms%s", c->name, c->timeout_ms,
                        zc_device_port_note(c->device, note));
}

static int cancelled(const struct zc_connection *c, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_CANCELLED, -ECANCELED, NULL, "cancelled while connecting to peer %s", c->name);
}

int connection_wait(struct zc_connection *c, struct zc_error *err)
{
    int rc = zc_wait_readable(c->epoll_fd, c->cancel_fd, c->deadline_ns);
    if (rc == -ETIMEDOUT)
        return no_answer(c, err);
    if (rc == -ECANCELED)
        return cancelled(c, err);
    return rc ? zc_error_set(err, ZC_ERR_INTERNAL, rc, NULL, "cannot wait for peer %s: %s", c->name, strerror(-rc)) : 0;
}

/* The next event of `id`. The QPs connected before it must stay alive meanwhile. */
static int next_event(struct zc_connection *c, const struct rdma_cm_id *id, struct zc_cm_event *event, struct zc_error *err)
{
    for (;;) {
        int rc = zc_cm_event_next(c->channel, event);
        if (rc < 0)
            return zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "rdma_cm failed while connecting to peer %s: %s", c->name,
                                strerror(-rc));
        if (rc > 0 && event->id == id && event->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
            return 0;
        connection_drain_control(c);
        if (rc > 0)
            connection_event(c, event);
        if (c->removed)
            return connection_removed(c, err);
        if (c->lost)
            return zc_error_set(err, ZC_ERR_PEER, -ENOTCONN, "peer", "peer %s was lost while connecting: %s", c->name, c->lost);
        if (rc == 0 && (rc = connection_wait(c, err)) != 0)
            return rc;
    }
}

/* The answer to a call that failed at once, or in its event, before the peer was asked anything. */
static int route_error(const struct zc_connection *c, int errnum, struct zc_error *err)
{
    char note[ZC_PORT_NOTE_MAX];
    if (zc_device_gone(c->device))
        return connection_removed(c, err);
    switch (errnum) {
    case ETIMEDOUT:
        return no_answer(c, err);
    case ENODEV:
    case EADDRNOTAVAIL:
        return zc_error_set(err, ZC_ERR_PEER, -errnum, "peer", "no RDMA device of this host leads to peer %s%s", c->name,
                            zc_device_port_note(c->device, note));
    default:
        return zc_error_set(err, ZC_ERR_PEER, errnum ? -errnum : -EIO, "peer", "peer %s cannot be reached: %s%s", c->name,
                            errnum ? strerror(errnum) : "unknown error", zc_device_port_note(c->device, note));
    }
}

static int left_ms(const struct zc_connection *c)
{
    uint64_t now_ns = zc_now_ns();
    return c->deadline_ns > now_ns ? (int)((c->deadline_ns - now_ns) / 1000000u) + 1 : 1;
}

/* The device's own address, if it is to be the source and speaks the peer's version of IP. */
static struct sockaddr *source(struct zc_connection *c, const struct sockaddr *peer)
{
    struct sockaddr *const from = (struct sockaddr *)&c->from.list[0];
    return c->from.count > 0 && from->sa_family == peer->sa_family ? from : NULL;
}

/* Before the address is resolved: the route and the QP take it over. */
static int set_tos(const struct zc_connection *c, struct rdma_cm_id *id, struct zc_error *err)
{
    uint8_t tos = c->tos;
    if (tos == 0 || rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) == 0)
        return 0;
    return zc_error_set(err, ZC_ERR_DEVICE, errno ? -errno : -EIO, "tos", "rdma_cm refuses the type of service %u: %m", tos);
}

static int resolve(struct zc_connection *c, struct rdma_cm_id *id, struct sockaddr *address, struct zc_error *err)
{
    struct zc_cm_event event;
    if (rdma_resolve_addr(id, source(c, address), address, left_ms(c)) != 0)
        return route_error(c, errno, err);
    int rc = next_event(c, id, &event, err);
    if (rc)
        return rc;
    if (event.type != RDMA_CM_EVENT_ADDR_RESOLVED)
        return route_error(c, event.status < 0 ? -event.status : EHOSTUNREACH, err);
    if (!id->verbs)
        return route_error(c, ENODEV, err);
    if (id->verbs != zc_device_context(c->device))
        return zc_error_set(err, ZC_ERR_PEER, -EXDEV, "peer", "peer %s is reached over the device %s, not over %s", c->name,
                            ibv_get_device_name(id->verbs->device), zc_device_info(c->device)->name);

    if (rdma_resolve_route(id, left_ms(c)) != 0)
        return route_error(c, errno, err);
    rc = next_event(c, id, &event, err);
    if (rc)
        return rc;
    return event.type == RDMA_CM_EVENT_ROUTE_RESOLVED
               ? 0 : route_error(c, event.status < 0 ? -event.status : EHOSTUNREACH, err);
}

static bool read_answer(const struct zc_cm_event *event, struct zc_peer_answer *answer)
{
    if (event->private_length < sizeof(*answer))
        return false;
    memcpy(answer, event->private_data, sizeof(*answer));
    zc_peer_answer_swap(answer);
    return answer->magic == ZC_PEER_MAGIC;
}

/* Reasons of the CM's REJ message, InfiniBand specification volume 1, table "Rejection reason". */
enum { REJ_INVALID_SERVICE_ID = 8, REJ_CONSUMER = 28 };

static int rejected(const struct zc_connection *c, const struct zc_cm_event *event, struct zc_error *err)
{
    struct zc_peer_answer answer;
    if (event->status == REJ_INVALID_SERVICE_ID || event->status == -ECONNREFUSED)
        return zc_error_set(err, ZC_ERR_PEER, -ECONNREFUSED, "peer", "peer %s refused: nobody listens on port %u", c->name, c->port);
    if (event->status != REJ_CONSUMER)
        return zc_error_set(err, ZC_ERR_PEER, -ECONNREFUSED, "peer", "peer %s refused: rdma_cm gives the reason %d", c->name,
                            event->status);
    if (!read_answer(event, &answer))
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s refused: it speaks another protocol", c->name);
    if (answer.status == ZC_PEER_BAD_VERSION)
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s refused: it speaks version %u of the peer protocol, this is %d",
                            c->name, answer.version, ZC_PEER_VERSION);
    if (zc_peer_status_limit(answer.status))
        return zc_error_set(err, ZC_ERR_PEER, -ECONNREFUSED, "peer", "peer %s refused: %s (%s = %u)", c->name,
                            zc_peer_status_text(answer.status), zc_peer_status_limit(answer.status), answer.limit);
    return zc_error_set(err, ZC_ERR_PEER, -ECONNREFUSED, "peer", "peer %s refused: %s", c->name, zc_peer_status_text(answer.status));
}

static int accepted(struct zc_connection *c, const struct zc_cm_event *event, struct zc_error *err)
{
    struct zc_peer_answer answer;
    if (!read_answer(event, &answer))
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s is not a zcrdmad: it accepted, but speaks another protocol",
                            c->name);
    if (answer.version != ZC_PEER_VERSION)
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s speaks version %u of the peer protocol, this is %d", c->name,
                            answer.version, ZC_PEER_VERSION);
    if (answer.status != ZC_PEER_OK)
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s accepted and said: %s", c->name,
                            zc_peer_status_text(answer.status));
    /* With a depth of 0 a READ never completes. */
    if (event->initiator_depth == 0)
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s lets no RDMA READ be outstanding", c->name);
    if (event->initiator_depth < c->outstanding_reads)
        c->outstanding_reads = event->initiator_depth;
    return 0;
}

static int request(struct zc_connection *c, struct rdma_cm_id *id, uint32_t index, struct zc_error *err)
{
    struct zc_peer_request private_data = {
        .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .session = c->auth.session,
        .qp_index = (uint16_t)index, .qp_count = (uint16_t)c->qps,
    };
    zc_peer_request_swap(&private_data);
    struct rdma_conn_param param;
    int rc = zc_conn_param_request(&param, zc_cm_initiator_depth(c->device), zc_cm_responder_depth(c->device), &private_data,
                                   sizeof(private_data));
    if (rc)
        return zc_error_set(err, ZC_ERR_INTERNAL, rc, NULL, "a connection request has more than %d bytes of private data",
                            ZC_REQUEST_PRIVATE_MAX);
    if (rdma_connect(id, &param) != 0)
        return zc_error_set(err, ZC_ERR_DEVICE, errno ? -errno : -EIO, NULL, "cannot send a connection request to peer %s: %m", c->name);

    struct zc_cm_event event;
    rc = next_event(c, id, &event, err);
    if (rc)
        return rc;
    switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
        rc = accepted(c, &event, err);
        if (rc == 0)
            zc_cm_set_rnr_timer(id->qp);
        return rc;
    case RDMA_CM_EVENT_REJECTED:
        return rejected(c, &event, err);
    case RDMA_CM_EVENT_UNREACHABLE:
        return no_answer(c, err);
    case RDMA_CM_EVENT_DISCONNECTED:
        return zc_error_set(err, ZC_ERR_PEER, -ENOTCONN, "peer", "peer %s closed the connection at once", c->name);
    default:
        return zc_error_set(err, ZC_ERR_PEER, event.status < 0 ? event.status : -ECONNABORTED, "peer",
                            "cannot connect to peer %s: %s (status %d)", c->name, rdma_event_str(event.type), event.status);
    }
}

int connect_qp(struct zc_connection *c, uint32_t index, struct sockaddr *address, struct zc_error *err)
{
    struct rdma_cm_id *id;
    /* A fast device has every event ready before it is waited for, and only waiting looks at cancel_fd. */
    if (zc_wait_readable(-1, c->cancel_fd, 0) == -ECANCELED)
        return cancelled(c, err);
    int rc = zc_cm_id_create(c->channel, c, &id, err);
    if (rc)
        return rc;
    rc = set_tos(c, id, err);
    if (rc == 0)
        rc = resolve(c, id, address, err);
    if (rc)
        goto destroy_id;

    struct ibv_cq *control_cq = zc_completion_cq(c->control);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC, .send_cq = zc_completion_cq(c->completion), .recv_cq = control_cq,
        .cap = {.max_send_wr = c->send_slots + CONTROL_SENDS, .max_send_sge = 1, .max_recv_wr = CONTROL_RECEIVES, .max_recv_sge = 1},
    };
    rc = zc_cm_qp_create_family(c->device, id, &attr, c->post, IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND, &c->senders[index],
                                err);
    if (rc)
        goto destroy_id;
    c->ids[index] = id;
    rc = connection_post_receives(c, index, err);
    if (rc == 0)
        rc = request(c, id, index, err);
    if (rc) {
        c->ids[index] = NULL;
        goto destroy_id;
    }
    c->connected++;
    return 0;

destroy_id:
    zc_cm_id_destroy(id);
    return rc;
}
