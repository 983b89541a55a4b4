/* rdma_cm: addresses, listening, connecting, and what the two sides are told of each other. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>

#include "side.h"

static struct rdma_conn_param asking = {.responder_resources = 5, .initiator_depth = 9, .retry_count = 3, .rnr_retry_count = 3};

static void connected(const void *arg)
{
    struct side server, client;
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    (void)arg;
    side_connect(&server, &client, NULL);
    say("%s/%s", state_name(state_of(client.id->qp)), state_name(state_of(server.id->qp)));
    need(ibv_query_qp(client.id->qp, &a, IBV_QP_DEST_QPN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY, &i), "ibv_query_qp");
    say("%s", a.dest_qp_num == server.id->qp->qp_num ? "to each other" : "to somebody");
    say("retry %u rnr %u", a.retry_cnt, a.rnr_retry);
    struct buffer from = pair_buffer(client.id->pd, 1000, ALL_ACCESS), to = pair_buffer(server.id->pd, 1000, ALL_ACCESS);
    fill(&from, 1);
    struct ibv_sge s = sge(&from, 0, 1000);
    need(post(client.id->qp, (struct ibv_send_wr){.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                                                  .wr.rdma = {(uintptr_t)to.p, to.mr->rkey}}),
         "WRITE");
    say("WRITE %s", outcome(client.cq, 1));
    say("%s", filled(to.p, 1000, 1, 0) ? "exact" : "wrong data");
}

static void tell_data(const struct rdma_cm_event *ev, const char *expected)
{
    const char *data = ev->param.conn.private_data;
    size_t n = strlen(expected);
    bool right = data && ev->param.conn.private_data_len >= n && memcmp(data, expected, n) == 0;
    say("%u bytes %s", ev->param.conn.private_data_len, right ? "right" : "wrong");
}

static void private_data(const void *arg)
{
    struct side server, client;
    struct rdma_conn_param p = asking;
    (void)arg;
    p.private_data = "hello";
    p.private_data_len = 5;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    need(rdma_connect(client.id, &p), "rdma_connect");
    struct rdma_cm_event *ev = side_next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
    tell_data(ev, "hello");
    server.id = ev->id;
    need(rdma_ack_cm_event(ev), "rdma_ack_cm_event");
    side_qp(&server);
    p.private_data = "welcome";
    p.private_data_len = 7;
    need(rdma_accept(server.id, &p), "rdma_accept");
    tell_data(side_next(&client, RDMA_CM_EVENT_ESTABLISHED), "welcome");
}

static void private_data_too_long(const void *arg)
{
    static const char data[250];
    struct side server, client;
    struct rdma_conn_param p = asking;
    (void)arg;
    p.private_data = data;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    p.private_data_len = 57;
    say("57 %s", error_name(rdma_connect(client.id, &p)));
    p.private_data_len = 56;
    say("56 %s", error_name(rdma_connect(client.id, &p)));
}

/* Each side is told the depths from its own point of view; a 9 that nobody reduces stays a 9. */
static void depths(const void *arg)
{
    struct side server, client;
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    struct rdma_conn_param p = asking;
    (void)arg;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    need(rdma_connect(client.id, &p), "rdma_connect");
    struct rdma_cm_event *ev = side_next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
    say("request %u/%u", ev->param.conn.responder_resources, ev->param.conn.initiator_depth);
    server.id = ev->id;
    need(rdma_ack_cm_event(ev), "rdma_ack_cm_event");
    side_qp(&server);
    p.responder_resources = 7;
    p.initiator_depth = 3;
    need(rdma_accept(server.id, &p), "rdma_accept");
    ev = side_next(&client, RDMA_CM_EVENT_ESTABLISHED);
    say("established %u/%u", ev->param.conn.responder_resources, ev->param.conn.initiator_depth);
    const int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
    need(ibv_query_qp(client.id->qp, &a, mask, &i), "ibv_query_qp");
    say("client's QP %u out %u in", a.max_rd_atomic, a.max_dest_rd_atomic);
    need(ibv_query_qp(server.id->qp, &a, mask, &i), "ibv_query_qp");
    say("server's QP %u out %u in", a.max_rd_atomic, a.max_dest_rd_atomic);
}

static void reject(const void *arg)
{
    struct side server, client;
    struct rdma_conn_param p = asking;
    (void)arg;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    need(rdma_connect(client.id, &p), "rdma_connect");
    struct rdma_cm_event *ev = side_next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
    need(rdma_reject(ev->id, "no", 3), "rdma_reject");
    struct rdma_cm_id *id = ev->id;
    need(rdma_ack_cm_event(ev), "rdma_ack_cm_event");
    say("destroy %s", error_name(rdma_destroy_id(id)));
    ev = side_next(&client, RDMA_CM_EVENT_REJECTED);
    say("REJECTED status %d", ev->status);
    tell_data(ev, "no");
    say("QP %s", state_name(state_of(client.id->qp)));
}

static void no_listener(const void *arg)
{
    struct side server, client;
    struct rdma_conn_param p = asking;
    (void)arg;
    side_listen(&server);
    uint16_t port = rdma_get_src_port(server.listener);
    need(rdma_destroy_id(server.listener), "rdma_destroy_id");
    side_resolve(&client, port);
    need(rdma_connect(client.id, &p), "rdma_connect");
    say("REJECTED status %d", side_next(&client, RDMA_CM_EVENT_REJECTED)->status);
}

static void listen_twice(const void *arg)
{
    struct side server;
    struct rdma_cm_id *id;
    (void)arg;
    side_listen(&server);
    struct sockaddr_in a = side_address(rdma_get_src_port(server.listener));
    say("%s", a.sin_port ? "a port" : "no port");
    need(rdma_create_id(server.ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    int e = rdma_bind_addr(id, (struct sockaddr *)&a);
    if (!e)
        e = rdma_listen(id, 1);
    say("%s", error_name(e));
    need(rdma_destroy_id(server.listener), "rdma_destroy_id");
    need(rdma_create_id(server.ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    say("after it is gone %s", error_name(rdma_bind_addr(id, (struct sockaddr *)&a)));
}

static void foreign_address(const void *arg)
{
    struct side s = {.ch = need_ptr(rdma_create_event_channel(), "rdma_create_event_channel")};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("203.0.113.77")};
    (void)arg;
    need(rdma_create_id(s.ch, &s.id, NULL, RDMA_PS_TCP), "rdma_create_id");
    say("%s", error_name(rdma_bind_addr(s.id, (struct sockaddr *)&a)));
}

static bool has_route(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0;
}

/* An address that no route leads to. Where one leads everywhere, this process moves to where none leads anywhere. */
static void unreachable(const void *arg)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7471), .sin_addr.s_addr = inet_addr("203.0.113.77")};
    (void)arg;
    if (has_route(&a) && unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
        give_up("unshare", -1);
    struct side s = {.ch = need_ptr(rdma_create_event_channel(), "rdma_create_event_channel")};
    need(rdma_create_id(s.ch, &s.id, NULL, RDMA_PS_TCP), "rdma_create_id");
    if (rdma_resolve_addr(s.id, NULL, (struct sockaddr *)&a, 1000)) {
        say("%s", error_name(-1));
        return;
    }
    struct rdma_cm_event *ev = side_any(&s, WAIT_MS);
    say("%s", ev ? cm_event_name(ev->event) : "no event");
    say("status %s", ev ? error_name(ev->status) : "none");
}

static void not_blocking(const void *arg)
{
    struct side server;
    struct rdma_cm_event *ev;
    (void)arg;
    side_listen(&server);
    need(fcntl(server.ch->fd, F_SETFL, O_NONBLOCK), "fcntl");
    say("%s", error_name(rdma_get_cm_event(server.ch, &ev)));
}

/* Calls whose turn has not come, on an id that has an address and no route. */
static void out_of_turn(const void *arg)
{
    struct side s = {.ch = need_ptr(rdma_create_event_channel(), "rdma_create_event_channel")};
    struct sockaddr_in a = side_address(htons(7471));
    struct rdma_conn_param p = asking;
    (void)arg;
    need(rdma_create_id(s.ch, &s.id, NULL, RDMA_PS_TCP), "rdma_create_id");
    need(rdma_resolve_addr(s.id, NULL, (struct sockaddr *)&a, 2000), "rdma_resolve_addr");
    side_take(&s, RDMA_CM_EVENT_ADDR_RESOLVED);
    side_qp(&s);
    say("connect %s", error_name(rdma_connect(s.id, &p)));
    say("accept %s", error_name(rdma_accept(s.id, &p)));
    say("disconnect %s", error_name(rdma_disconnect(s.id)));
    say("listen %s", error_name(rdma_listen(s.id, 1)));
    say("again %s", error_name(rdma_resolve_addr(s.id, NULL, (struct sockaddr *)&a, 2000)));
    say("route %s", error_name(rdma_resolve_route(s.id, 2000)));
}

/* A request carries the listener, its context until it is changed, and an id of its own. */
static void request_fields(const void *arg)
{
    struct side server, client;
    struct rdma_conn_param p = asking;
    (void)arg;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    need(rdma_connect(client.id, &p), "rdma_connect");
    struct rdma_cm_event *ev = side_next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
    say("%s", ev->listen_id == server.listener && ev->id != server.listener ? "listen_id" : "wrong listen_id");
    say("%s", ev->id->context == &server ? "context" : "wrong context");
    say("%s", ev->id->verbs && ev->id->pd ? "device" : "no device");
    say("%s", ev->param.conn.qp_num == client.id->qp->qp_num ? "qp_num" : "wrong qp_num");
    say("%s", rdma_get_dst_port(ev->id) == rdma_get_src_port(client.id) && rdma_get_src_port(client.id) ? "port" : "wrong port");
}

#define CM_MAN "rdma_connect(3)"

const struct check cm_checks[] = {
    {"cm_connect", connected, "RTS/RTS, to each other, retry 3 rnr 3, WRITE ok, exact", "IBA 12.9; rdma_cm(7)", NULL},
    {"cm_private_data", private_data, "56 bytes right, 196 bytes right", "IBA 12.6.5, 12.6.8, A11; " CM_MAN, NULL},
    {"cm_private_data_too_long", private_data_too_long, "57 EINVAL, 56 ok", CM_MAN, NULL},
    {"cm_depths", depths, "request 9/5, established 3/7, client's QP 7 out 3 in, server's QP 3 out 7 in",
     "IBA 12.7.26, 12.7.29; rdma_get_cm_event(3)", NULL},
    {"cm_reject", reject, "destroy ok, REJECTED status 28, 148 bytes right, QP INIT | destroy ok, REJECTED status 28, 148 bytes right, QP ERR",
     "IBA 12.6.7.2: 28 is consumer reject", NULL},
    {"cm_no_listener", no_listener, "REJECTED status 8", "IBA 12.6.7.2: 8 is invalid service ID", NULL},
    {"cm_listen_twice", listen_twice, "a port, EADDRINUSE, after it is gone ok", "rdma_bind_addr(3)", NULL},
    {"cm_foreign_address", foreign_address, "EADDRNOTAVAIL | ENODEV", "rdma_bind_addr(3)", NULL},
    {"cm_unreachable", unreachable, "ENETUNREACH | ADDR_ERROR, status ENETUNREACH", "rdma_resolve_addr(3)",
     NULL},
    {"cm_event_not_blocking", not_blocking, "EAGAIN", "rdma_get_cm_event(3)", NULL},
    {"cm_out_of_turn", out_of_turn, "connect EINVAL, accept EINVAL, disconnect EINVAL, listen EINVAL, again EINVAL, route ok", "rdma_cm(7)", NULL},
    {"cm_request_fields", request_fields, "listen_id, context, device, qp_num, port", "rdma_get_cm_event(3)", NULL},
    {0},
};
