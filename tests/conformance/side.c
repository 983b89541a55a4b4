#include "side.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

static const struct rdma_conn_param usual = {.responder_resources = 4, .initiator_depth = 4, .retry_count = 3,
                                             .rnr_retry_count = 3};

struct sockaddr_in side_address(uint16_t port_be)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port_be, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int n = 0;
    uint8_t index;
    struct ibv_context **list = rdma_get_devices(&n);
    if (!list || !n)
        give_up("rdma_get_devices", -1);
    union ibv_gid gid = pair_gid(list[0], &index);
    if (gid.raw[10] == 0xff && gid.raw[11] == 0xff)
        memcpy(&a.sin_addr, gid.raw + 12, 4);
    rdma_free_devices(list);
    return a;
}

const char *cm_event_name(enum rdma_cm_event_type type)
{
    const char *s = rdma_event_str(type);
    return strncmp(s, "RDMA_CM_EVENT_", 14) == 0 ? s + 14 : s;
}

struct rdma_cm_event *side_any(struct side *s, int ms)
{
    struct pollfd p = {.fd = s->ch->fd, .events = POLLIN};
    struct rdma_cm_event *ev;
    if (poll(&p, 1, ms) != 1)
        return NULL;
    need(rdma_get_cm_event(s->ch, &ev), "rdma_get_cm_event");
    return ev;
}

struct rdma_cm_event *side_next(struct side *s, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *ev = side_any(s, 2 * WAIT_MS);
    if (ev && ev->event == type)
        return ev;
    say("%s instead of %s", ev ? cm_event_name(ev->event) : "nothing", cm_event_name(type));
    give_up("rdma_cm", ev ? ev->status : ETIMEDOUT);
}

void side_take(struct side *s, enum rdma_cm_event_type type)
{
    need(rdma_ack_cm_event(side_next(s, type)), "rdma_ack_cm_event");
}

void side_qp(struct side *s)
{
    s->cq = need_ptr(ibv_create_cq(s->id->verbs, 64, NULL, NULL, 0), "ibv_create_cq");
    struct ibv_qp_init_attr a = {.send_cq = s->cq, .recv_cq = s->cq, .qp_type = IBV_QPT_RC, .cap = {32, 32, 2, 2, 0}};
    need(rdma_create_qp(s->id, NULL, &a), "rdma_create_qp");
}

void side_listen(struct side *s)
{
    struct sockaddr_in a = side_address(0);
    memset(s, 0, sizeof *s);
    s->ch = need_ptr(rdma_create_event_channel(), "rdma_create_event_channel");
    need(rdma_create_id(s->ch, &s->listener, s, RDMA_PS_TCP), "rdma_create_id");
    need(rdma_bind_addr(s->listener, (struct sockaddr *)&a), "rdma_bind_addr");
    need(rdma_listen(s->listener, 4), "rdma_listen");
}

void side_resolve(struct side *s, uint16_t port_be)
{
    struct sockaddr_in a = side_address(port_be);
    memset(s, 0, sizeof *s);
    s->ch = need_ptr(rdma_create_event_channel(), "rdma_create_event_channel");
    need(rdma_create_id(s->ch, &s->id, s, RDMA_PS_TCP), "rdma_create_id");
    need(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&a, 2000), "rdma_resolve_addr");
    side_take(s, RDMA_CM_EVENT_ADDR_RESOLVED);
    need(rdma_resolve_route(s->id, 2000), "rdma_resolve_route");
    side_take(s, RDMA_CM_EVENT_ROUTE_RESOLVED);
    side_qp(s);
}

void side_accept(struct side *server, const struct rdma_conn_param *p)
{
    struct rdma_conn_param param = p ? *p : usual;
    struct rdma_cm_event *ev = side_next(server, RDMA_CM_EVENT_CONNECT_REQUEST);
    server->id = ev->id;
    need(rdma_ack_cm_event(ev), "rdma_ack_cm_event");
    side_qp(server);
    need(rdma_accept(server->id, &param), "rdma_accept");
}

void side_connect(struct side *server, struct side *client, const struct rdma_conn_param *p)
{
    struct rdma_conn_param param = p ? *p : usual;
    side_listen(server);
    side_resolve(client, rdma_get_src_port(server->listener));
    need(rdma_connect(client->id, &param), "rdma_connect");
    side_accept(server, NULL);
    side_take(client, RDMA_CM_EVENT_ESTABLISHED);
    side_take(server, RDMA_CM_EVENT_ESTABLISHED);
}
