/* A requester's session from opening to closing: see connection.h. How one QP gets connected is in connect.c, what is said on the
 * control QP in talk.c. */
#include "connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "connection_private.h"
#include "counters.h"
#include "memory.h"
#include "post.h"

enum {
    BYE_TIMEOUT_NS = 200000000,
    REASON_TIMEOUT_MS = 100,
};

/* A device that is taken away explains whatever else happens to its connections. */
void connection_event(struct zc_connection *c, const struct zc_cm_event *event)
{
    c->removed |= event->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
    if (c->lost)
        return;
    switch (event->type) {
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_REJECTED:        /* it ended the session before the CM's last message had reached it */
    case RDMA_CM_EVENT_CONNECT_ERROR:
        c->lost = "it closed the connection";
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        c->lost = "the local RDMA device was removed";
        break;
    default:
        break;
    }
}

void connection_drain_events(struct zc_connection *c)
{
    struct zc_cm_event event;
    while (zc_cm_event_next(c->channel, &event) > 0)
        connection_event(c, &event);
}

int connection_removed(const struct zc_connection *c, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_DEVICE, -ENODEV, "device", "the RDMA device %s was removed", zc_device_info(c->device)->name);
}

/* Where both ends are on the device that is taken away, the end of the other one may be heard of first. */
static void ask_for_reason(struct zc_connection *c)
{
    struct pollfd news = {.fd = c->channel->fd, .events = POLLIN};
    if (!c->lost || c->told || c->removed || c->asked)
        return;
    c->asked = true;
    if (poll(&news, 1, REASON_TIMEOUT_MS) > 0)
        connection_drain_events(c);
}

static int watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Everything local: descriptors, control CQ, control messages. Undone by zc_connection_close(), partly done or not. */
static int set_up(struct zc_connection *c, struct zc_error *err)
{
    c->ids = calloc(c->qps, sizeof(struct rdma_cm_id *));
    c->senders = calloc(c->qps, sizeof(*c->senders));
    c->page = calloc(1, sizeof(*c->page));
    if (!c->ids || !c->senders || !c->page)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a connection with %u QPs", c->qps);
    while (c->auth.session == 0)
        if (getrandom(&c->auth.session, sizeof(c->auth.session), 0) < 0 && errno != EINTR)
            return zc_error_set(err, ZC_ERR_INTERNAL, -errno, NULL, "cannot get a random session id: %m");

    int rc = zc_cm_channel_create(&c->channel, err);
    if (rc == 0)
        rc = zc_completion_create(c->device, (int)(CONTROL_RECEIVES + c->qps), &c->control, err);
    if (rc == 0)
        rc = zc_buffer_create(CONTROL_MESSAGES * sizeof(union control_message), -1, c->page, err);
    if (rc)
        return rc;
    c->messages = c->page->address;
    rc = zc_mr_register(c->device, c->messages, c->page->length_bytes, IBV_ACCESS_LOCAL_WRITE, "control messages", &c->mr, err);
    if (rc)
        return rc;

    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll_fd < 0 || watch(c->epoll_fd, c->channel->fd) != 0 || watch(c->epoll_fd, zc_completion_fd(c->control)) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot watch the connection's descriptors: %m");
    return 0;
}

/* Several addresses may belong to a name; the first that leads to an answer is the peer's. What the last one said is the error, but
 * a peer that answered, a timeout and a cancellation are final. */
static int connect_all(struct zc_connection *c, const char *host, struct zc_error *err)
{
    struct zc_addresses addresses;
    int rc = zc_resolve(host, c->port, c->deadline_ns, c->cancel_fd, &addresses, err);
    if (rc == -ETIMEDOUT)
        return zc_error_set(err, ZC_ERR_PEER, rc, "peer", "peer '%s' does not resolve within %u ms", host, c->timeout_ms);
    if (rc == -ECANCELED)
        return zc_error_set(err, ZC_ERR_CANCELLED, rc, NULL, "cancelled while resolving peer '%s'", host);
    if (rc)
        return rc;

    size_t which = 0;
    for (;; which++) {
        rc = connect_qp(c, 0, (struct sockaddr *)&addresses.list[which], err);
        bool final = rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED || rc == -EPROTO || rc == -ECONNREFUSED;
        if (final || which + 1 == addresses.count)
            break;
    }
    for (uint32_t i = 1; rc == 0 && i < c->qps; i++)
        rc = connect_qp(c, i, (struct sockaddr *)&addresses.list[which], err);
    return rc;
}

static int find_source(struct zc_connection *c, struct zc_error *err)
{
    const struct zc_device_info *info = zc_device_info(c->device);
    if (!info->address[0])
        return zc_error_set(err, ZC_ERR_DEVICE, -EADDRNOTAVAIL, "device", "%s port %u has no IP address to connect from", info->name,
                            info->port);
    return zc_resolve(info->address, 0, c->deadline_ns, c->cancel_fd, &c->from, err);
}

int zc_connection_open(const struct zc_device *device, const struct zc_connection_params *params, struct zc_connection **connection,
                       struct zc_error *err)
{
    if (params->qps < 1 || params->qps > ZC_PEER_QPS_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "qps", "a connection has 1 to %d QPs, not %u", ZC_PEER_QPS_MAX, params->qps);
    struct zc_connection *c = calloc(1, sizeof(*c));
    if (!c)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a connection");
    c->device = device;
    c->completion = params->completion;
    c->epoll_fd = -1;
    c->qps = params->qps;
    c->send_slots = params->send_slots;
    c->post = params->post;
    c->outstanding_reads = zc_cm_initiator_depth(device);
    c->port = params->port;
    c->timeout_ms = params->timeout_ms;
    c->tos = params->tos;
    c->key = params->key;
    c->deadline_ns = zc_now_ns() + (uint64_t)params->timeout_ms * 1000000u;
    c->cancel_fd = params->cancel_fd;
    snprintf(c->name, sizeof(c->name), strchr(params->host, ':') ? "[%s]:%u" : "%s:%u", params->host, params->port);

    int rc = set_up(c, err);
    if (rc == 0 && params->from_device)
        rc = find_source(c, err);
    if (rc == 0)
        rc = connect_all(c, params->host, err);
    if (rc == 0)
        rc = connection_greet(c, err);
    if (rc) {
        zc_connection_close(c);
        return rc;
    }
    *connection = c;
    return 0;
}

/* Wait until the peer's NIC has BYE (a disconnect right away would flush it), dropping every other completion. */
static void say_bye(struct zc_connection *c)
{
    uint64_t deadline_ns = zc_now_ns() + BYE_TIMEOUT_NS;
    struct ibv_wc wcs[16];
    connection_write(c, CONTROL_BYE, ZC_PEER_BYE, NULL);
    if (connection_post(c, CONTROL_BYE, IBV_SEND_SIGNALED) != 0)
        return;
    do {
        int count;
        zc_completion_rearm(c->completion);
        while ((count = zc_completion_poll(c->completion, 16, wcs)) > 0)
            for (int i = 0; i < count; i++)
                if (wcs[i].wr_id == CONTROL_BYE_WR_ID || wcs[i].status != IBV_WC_SUCCESS)
                    return;
    } while (zc_completion_wait(c->completion, -1, deadline_ns) > 0);
}

void zc_connection_close(struct zc_connection *c)
{
    if (!c)
        return;
    if (c->welcomed && zc_connection_check(c, NULL) == 0)
        say_bye(c);
    for (uint32_t i = 0; c->ids && i < c->qps; i++)
        if (c->ids[i])
            rdma_disconnect(c->ids[i]);
    for (uint32_t i = 0; c->ids && i < c->qps; i++)
        zc_cm_id_destroy(c->ids[i]);

    /* Providers may leave completions of a destroyed QP in its CQs. */
    struct ibv_wc wcs[16];
    while (zc_completion_poll(c->completion, 16, wcs) > 0)
        ;
    zc_completion_destroy(c->control);
    zc_mr_deregister(c->mr);
    if (c->page)
        zc_buffer_destroy(c->page);
    free(c->page);
    if (c->epoll_fd >= 0)
        close(c->epoll_fd);
    if (c->channel)
        rdma_destroy_event_channel(c->channel);
    free(c->senders);
    free(c->ids);
    free(c);
}

/* Best effort: a full send queue has READs in flight, and more than one chance comes until the peer's time is over. */
static void say_alive(struct zc_connection *c, uint64_t late_ns, uint64_t now_ns, unsigned flags)
{
    uint64_t next_ns = atomic_load_explicit(&c->next_alive_ns, memory_order_relaxed);
    if (c->alive_ns == 0 || now_ns < next_ns + late_ns || c->lost)
        return;
    if (atomic_compare_exchange_strong(&c->next_alive_ns, &next_ns, now_ns + c->alive_ns))
        connection_post(c, CONTROL_ALIVE, flags);
}

void zc_connection_keep(struct zc_connection *c, uint64_t now_ns)
{
    say_alive(c, 0, now_ns, 0);
}

uint64_t connection_keep(struct zc_connection *c, bool alone, uint64_t now_ns)
{
    struct ibv_wc wcs[4];
    while (alone && zc_completion_poll(c->completion, 4, wcs) > 0)
        ;
    say_alive(c, alone ? 0 : c->alive_ns / 2, now_ns, alone ? IBV_SEND_SIGNALED : 0);
    return c->alive_ns / 2;
}

int zc_connection_check(struct zc_connection *c, struct zc_error *err)
{
    zc_connection_keep(c, zc_now_ns());
    struct epoll_event event;
    if (!c->lost && epoll_wait(c->epoll_fd, &event, 1, 0) > 0) {
        connection_drain_control(c);    /* first: a BYE says more than the disconnection that follows it */
        connection_drain_events(c);
        ask_for_reason(c);
    }
    if (!c->lost)
        return 0;
    if (c->removed)
        return connection_removed(c, err);
    char note[ZC_PORT_NOTE_MAX];
    return zc_error_set(err, ZC_ERR_PEER, c->told ? -ESHUTDOWN : -ENOTCONN, "peer", "peer %s is lost: %s%s", c->name, c->lost,
                        zc_device_port_note(c->device, note));
}

int zc_connection_fd(const struct zc_connection *c)
{
    return c->epoll_fd;
}

const struct zc_remote *zc_connection_remote(const struct zc_connection *c)
{
    return &c->remote;
}

struct ibv_qp *zc_connection_qp(const struct zc_connection *c, uint32_t index)
{
    return index < c->connected ? c->ids[index]->qp : NULL;
}

const struct zc_sender *zc_connection_sender(const struct zc_connection *c, uint32_t index)
{
    return index < c->connected ? &c->senders[index] : NULL;
}

uint32_t zc_connection_rkey(const struct zc_connection *c, uint32_t index)
{
    return c->welcome.rkeys[index];
}

uint32_t zc_connection_qp_count(const struct zc_connection *c)
{
    return c->connected;
}

uint32_t zc_connection_outstanding_reads(const struct zc_connection *c)
{
    return c->outstanding_reads;
}

uint64_t zc_connection_max_read_bytes(const struct zc_connection *c)
{
    /* The message length of a READ is 31 bits (InfiniBand specification, RETH); a port may carry less. */
    uint64_t limit = zc_device_info(c->device)->max_msg_size_bytes;
    return limit && limit < INT32_MAX ? limit : INT32_MAX;
}
