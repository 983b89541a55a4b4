/* rdma_cm for both sides: see cm.h. */
#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "counters.h"

int zc_cm_channel_create(struct rdma_event_channel **channel, struct zc_error *err)
{
    struct rdma_event_channel *c = rdma_create_event_channel();
    if (!c)
        return zc_error_set(err, ZC_ERR_DEVICE, -errno, NULL, "cannot create an rdma_cm event channel: %m");
    int flags = fcntl(c->fd, F_GETFL);
    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        int rc = zc_error_set(err, ZC_ERR_INTERNAL, -errno, NULL, "cannot make an rdma_cm event channel non-blocking: %m");
        rdma_destroy_event_channel(c);
        return rc;
    }
    *channel = c;
    return 0;
}

static bool has_connection_parameters(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
           type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED;
}

int zc_cm_event_next(struct rdma_event_channel *channel, struct zc_cm_event *event)
{
    struct rdma_cm_event *e;
    while (rdma_get_cm_event(channel, &e) != 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return errno ? -errno : -EIO;
    }
    *event = (struct zc_cm_event){.type = e->event, .id = e->id, .status = e->status};
    if (has_connection_parameters(e->event)) {
        const struct rdma_conn_param *conn = &e->param.conn;
        event->responder_resources = conn->responder_resources;
        event->initiator_depth = conn->initiator_depth;
        if (conn->private_data) {
            event->private_length = conn->private_data_len < ZC_CM_PRIVATE_MAX ? conn->private_data_len : ZC_CM_PRIVATE_MAX;
            memcpy(event->private_data, conn->private_data, event->private_length);
        }
    }
    rdma_ack_cm_event(e);
    return 1;
}

/* Before the QP exists: it is copied into the QP's attributes on the way to RTS. Kernels before 5.3 have no such option. */
static void set_ack_timeout(struct rdma_cm_id *id)
{
    uint8_t timeout = ZC_CM_ACK_TIMEOUT;
    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
}

int zc_cm_id_create(struct rdma_event_channel *channel, void *context, struct rdma_cm_id **id, struct zc_error *err)
{
    struct rdma_cm_id *created;
    if (rdma_create_id(channel, &created, context, RDMA_PS_TCP) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot create an rdma_cm id: %m");
    zc_cm_id_adopt(created);
    *id = created;
    return 0;
}

void zc_cm_id_adopt(struct rdma_cm_id *id)
{
    zc_count(&zc_counters.cm_ids, 1);
    set_ack_timeout(id);
}

void zc_cm_id_destroy(struct rdma_cm_id *id)
{
    if (!id)
        return;
    if (id->qp) {
        rdma_destroy_qp(id);
        zc_count(&zc_counters.qps, -1);
    }
    if (rdma_destroy_id(id) == 0)
        zc_count(&zc_counters.cm_ids, -1);
}

int zc_cm_qp_create(const struct zc_device *device, struct rdma_cm_id *id, struct ibv_qp_init_attr *attr, struct zc_error *err)
{
    uint32_t send_wr = attr->cap.max_send_wr;
    if (rdma_create_qp(id, zc_device_pd(device), attr) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, errno ? -errno : -EIO, NULL,
                            "cannot create a QP with %u send slots on %s (it allows %u): %m", send_wr,
                            zc_device_info(device)->name, zc_device_info(device)->max_qp_wr);
    zc_count(&zc_counters.qps, 1);
    return 0;
}

static int create_extended(const struct zc_device *device, struct rdma_cm_id *id, const struct ibv_qp_init_attr *attr, uint64_t ops)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq, .cap = attr->cap,
        .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all, .pd = zc_device_pd(device),
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = ops,
    };
    if (rdma_create_qp_ex(id, &ex) != 0)
        return errno ? -errno : -EIO;
    zc_count(&zc_counters.qps, 1);
    return 0;
}

int zc_cm_qp_create_family(const struct zc_device *device, struct rdma_cm_id *id, struct ibv_qp_init_attr *attr, enum zc_family family,
                           uint64_t ops, struct zc_sender *sender, struct zc_error *err)
{
    int rc = family == ZC_FAMILY_BASIC ? -EOPNOTSUPP : create_extended(device, id, attr, ops);
    if (rc && family == ZC_FAMILY_EXTENDED)
        return zc_error_set(err, ZC_ERR_DEVICE, rc, "post", "%s gives no QP with %u send slots for extended posting (ibv_wr_*): %s",
                            zc_device_info(device)->name, attr->cap.max_send_wr, strerror(-rc));
    if (rc)
        rc = zc_cm_qp_create(device, id, attr, err);
    if (rc)
        return rc;
    rc = zc_sender_init(sender, id->qp, family, ops);
    return rc ? zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "cannot query a QP on %s: %s", zc_device_info(device)->name, strerror(-rc))
              : 0;
}

void zc_cm_set_rnr_timer(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = ZC_CM_MIN_RNR_TIMER};
    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
}

static uint8_t depth(uint32_t device_limit)
{
    /* 255 would mean "as many as the device can" to librdmacm; 0 would let no READ complete, ever. */
    return (uint8_t)(device_limit < 1 ? 1 : device_limit > 254 ? 254 : device_limit);
}

uint8_t zc_cm_initiator_depth(const struct zc_device *device)
{
    return depth(zc_device_info(device)->max_qp_init_rd_atom);
}

uint8_t zc_cm_responder_depth(const struct zc_device *device)
{
    return depth(zc_device_info(device)->max_qp_rd_atom);
}

void zc_cm_address_split(const struct sockaddr *address, char *host, size_t host_size, uint16_t *port)
{
    snprintf(host, host_size, "?");
    *port = 0;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        inet_ntop(AF_INET, &in.sin_addr, host, (socklen_t)host_size);
        *port = ntohs(in.sin_port);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        *port = ntohs(in6.sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
            inet_ntop(AF_INET, &in6.sin6_addr.s6_addr[12], host, (socklen_t)host_size);
        else
            getnameinfo(address, sizeof(in6), host, (socklen_t)host_size, NULL, 0, NI_NUMERICHOST);
    }
}

const char *zc_cm_address_text(const struct sockaddr *address, char text[ZC_CM_NAME_MAX])
{
    char host[ZC_CM_NAME_MAX - 10];
    uint16_t port;
    zc_cm_address_split(address, host, sizeof(host), &port);
    snprintf(text, ZC_CM_NAME_MAX, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    return text;
}
