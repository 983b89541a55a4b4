/* rdma_cm through plain librdmacm, within one process and, with two processes, over a peer's death. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static struct rdma_cm_event *next(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *ev = NULL;
    struct pollfd p = {.fd = ch->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, RIG_DEADLINE_MS), 1);
    assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
    if (ev->event != type)
        print_error("got %s (%d), expected %s\n", rdma_event_str(ev->event), ev->status, rdma_event_str(type));
    assert_int_equal(ev->event, type);
    return ev;
}

static void take(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
    assert_int_equal(rdma_ack_cm_event(next(ch, type)), 0);
}

static struct sockaddr_in loopback(uint16_t port_be)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port_be, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* One side of a connection. */
struct side {
    struct rdma_event_channel *ch;
    struct rdma_cm_id *listener, *id;
    struct ibv_cq *cq;
};

static void side_qp(struct side *s)
{
    s->cq = ibv_create_cq(s->id->verbs, 64, NULL, NULL, 0);
    assert_non_null(s->cq);
    struct ibv_qp_init_attr a = {.send_cq = s->cq, .recv_cq = s->cq, .qp_type = IBV_QPT_RC, .cap = {32, 32, 2, 2, 64}};
    assert_int_equal(rdma_create_qp(s->id, NULL, &a), 0);
}

static void side_free(struct side *s)
{
    if (s->id) {
        if (s->id->qp)
            rdma_destroy_qp(s->id);
        assert_int_equal(rdma_destroy_id(s->id), 0);
    }
    if (s->cq)
        assert_int_equal(ibv_destroy_cq(s->cq), 0);
    if (s->listener)
        assert_int_equal(rdma_destroy_id(s->listener), 0);
    rdma_destroy_event_channel(s->ch);
}

static void side_listen(struct side *s)
{
    struct sockaddr_in a = loopback(0);
    memset(s, 0, sizeof *s);
    s->ch = rdma_create_event_channel();
    assert_non_null(s->ch);
    assert_int_equal(rdma_create_id(s->ch, &s->listener, s, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(s->listener, (struct sockaddr *)&a), 0);
    assert_int_equal(rdma_listen(s->listener, 4), 0);
    assert_int_not_equal(rdma_get_src_port(s->listener), 0);
}

static void side_resolve(struct side *s, uint16_t port_be)
{
    struct sockaddr_in a = loopback(port_be);
    memset(s, 0, sizeof *s);
    s->ch = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(s->ch, &s->id, s, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&a, 1000), 0);
    take(s->ch, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_non_null(s->id->verbs);
    assert_non_null(s->id->pd);
    assert_int_equal(rdma_resolve_route(s->id, 1000), 0);
    take(s->ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
    side_qp(s);
}

static void accept_one(struct side *server, const char *expected_private)
{
    struct rdma_cm_event *ev = next(server->ch, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_ptr_equal(ev->listen_id, server->listener);
    assert_ptr_equal(ev->id->context, server);
    assert_int_equal(ev->param.conn.private_data_len, 56);
    assert_string_equal(ev->param.conn.private_data, expected_private);
    assert_int_equal(ev->param.conn.responder_resources, 9); /* the peer's initiator depth */
    assert_int_equal(ev->param.conn.initiator_depth, 5);
    server->id = ev->id;
    assert_int_equal(rdma_ack_cm_event(ev), 0);
    side_qp(server);
    struct rdma_conn_param p = {.private_data = "welcome", .private_data_len = 8, .responder_resources = 7,
                                .initiator_depth = 3, .rnr_retry_count = 6};
    assert_int_equal(rdma_accept(server->id, &p), 0);
}

static const struct rdma_conn_param client_param = {.private_data = "hello", .private_data_len = 6, .responder_resources = 5,
                                                    .initiator_depth = 9, .retry_count = 6, .rnr_retry_count = 6};

static void connect_both(struct side *server, struct side *client)
{
    struct rdma_conn_param p = client_param;
    uint8_t timeout = 14;
    side_listen(server);
    side_resolve(client, rdma_get_src_port(server->listener));
    assert_int_equal(rdma_set_option(client->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
    assert_int_equal(rdma_connect(client->id, &p), 0);
    accept_one(server, "hello");
    struct rdma_cm_event *ev = next(client->ch, RDMA_CM_EVENT_ESTABLISHED);
    assert_string_equal(ev->param.conn.private_data, "welcome");
    assert_int_equal(ev->param.conn.initiator_depth, 7);
    assert_int_equal(ev->param.conn.responder_resources, 3);
    assert_int_equal(rdma_ack_cm_event(ev), 0);
    take(server->ch, RDMA_CM_EVENT_ESTABLISHED);
}

static void check_attributes(struct side *server, struct side *client)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    assert_int_equal(ibv_query_qp(client->id->qp, &a, 0, &i), 0);
    assert_int_equal(a.qp_state, IBV_QPS_RTS);
    assert_int_equal(a.max_rd_atomic, 7);
    assert_int_equal(a.max_dest_rd_atomic, 3);
    assert_int_equal(a.timeout, 14);
    assert_int_equal(a.retry_cnt, 6);
    assert_int_equal(a.dest_qp_num, server->id->qp->qp_num);
    assert_int_equal(ibv_query_qp(server->id->qp, &a, 0, &i), 0);
    assert_int_equal(a.max_rd_atomic, 3);
    assert_int_equal(a.max_dest_rd_atomic, 7);
    assert_int_equal(a.timeout, 19);
    struct sockaddr_in *peer = (struct sockaddr_in *)rdma_get_peer_addr(client->id);
    assert_int_equal(peer->sin_port, rdma_get_src_port(server->listener));
    assert_int_equal(rdma_get_dst_port(client->id), rdma_get_src_port(server->listener));
}

static void whole_life(void **state)
{
    struct side server, client;
    static char text[64], got[64];
    (void)state;
    connect_both(&server, &client);
    check_attributes(&server, &client);
    struct ibv_mr *mc = ibv_reg_mr(client.id->pd, text, sizeof text, RIG_ALL);
    struct ibv_mr *ms = ibv_reg_mr(server.id->pd, got, sizeof got, RIG_ALL);
    strcpy(text, "over rdma_cm");
    assert_int_equal(rdma_post_recv(server.id, (void *)1, got, sizeof got, ms), 0);
    assert_int_equal(rdma_post_send(client.id, (void *)2, text, sizeof text, mc, IBV_SEND_SIGNALED), 0);
    rig_expect(client.cq, 2, IBV_WC_SUCCESS);
    rig_expect(server.cq, 1, IBV_WC_SUCCESS);
    assert_string_equal(got, "over rdma_cm");
    strcpy(got, "read back");
    assert_int_equal(rdma_post_read(client.id, (void *)3, text, 16, mc, IBV_SEND_SIGNALED, (uintptr_t)got, ms->rkey), 0);
    rig_expect(client.cq, 3, IBV_WC_SUCCESS);
    assert_string_equal(text, "read back");

    assert_int_equal(rdma_post_recv(server.id, (void *)4, got, sizeof got, ms), 0);
    assert_int_equal(rdma_disconnect(client.id), 0);
    take(server.ch, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(rig_state(client.id->qp), IBV_QPS_ERR);
    assert_int_equal(rig_state(server.id->qp), IBV_QPS_RTS); /* until its owner does something */
    assert_int_equal(rdma_disconnect(server.id), 0);
    take(client.ch, RDMA_CM_EVENT_DISCONNECTED); /* which answers the client */
    rig_expect(server.cq, 4, IBV_WC_WR_FLUSH_ERR);
    take(client.ch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    ibv_dereg_mr(mc);
    ibv_dereg_mr(ms);
    side_free(&client);
    side_free(&server);
}

/* The end of a connection is not told before the message that came ahead of it has been polled. */
static void last_message_first(void **state)
{
    struct side server, client;
    static char text[64];
    (void)state;
    connect_both(&server, &client);
    struct ibv_mr *mc = ibv_reg_mr(client.id->pd, text, sizeof text, RIG_ALL), *ms = ibv_reg_mr(server.id->pd, text, sizeof text, RIG_ALL);
    assert_int_equal(rdma_post_recv(server.id, (void *)1, text, 32, ms), 0);
    assert_int_equal(rdma_post_send(client.id, (void *)2, text + 32, 32, mc, IBV_SEND_SIGNALED), 0);
    rig_expect(client.cq, 2, IBV_WC_SUCCESS);
    struct pollfd p = {.fd = server.ch->fd, .events = POLLIN};
    assert_int_equal(rdma_disconnect(client.id), 0);
    assert_int_equal(poll(&p, 1, 2), 0);
    rig_expect(server.cq, 1, IBV_WC_SUCCESS);
    take(server.ch, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(rdma_disconnect(server.id), 0);
    take(client.ch, RDMA_CM_EVENT_DISCONNECTED);
    ibv_dereg_mr(mc);
    ibv_dereg_mr(ms);
    side_free(&client);
    side_free(&server);
}

/* But it is told to a program that never polls. */
static void the_end_without_polling(void **state)
{
    struct side server, client;
    static char text[64];
    (void)state;
    connect_both(&server, &client);
    struct ibv_mr *mc = ibv_reg_mr(client.id->pd, text, sizeof text, RIG_ALL), *ms = ibv_reg_mr(server.id->pd, text, sizeof text, RIG_ALL);
    assert_int_equal(rdma_post_recv(server.id, (void *)1, text, 32, ms), 0);
    assert_int_equal(rdma_post_send(client.id, (void *)2, text + 32, 32, mc, IBV_SEND_SIGNALED), 0);
    rig_expect(client.cq, 2, IBV_WC_SUCCESS);
    side_free(&client);
    take(server.ch, RDMA_CM_EVENT_DISCONNECTED);
    ibv_dereg_mr(ms);
    ibv_dereg_mr(mc);
    side_free(&server);
}

static void rejected(void **state)
{
    struct side server, client;
    struct rdma_conn_param p = client_param;
    (void)state;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    assert_int_equal(rdma_connect(client.id, &p), 0);
    struct rdma_cm_event *ev = next(server.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = ev->id;
    assert_int_equal(rdma_reject(id, "no", 3), 0);
    assert_int_equal(rdma_ack_cm_event(ev), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    ev = next(client.ch, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(ev->status, 28);
    assert_int_equal(ev->param.conn.private_data_len, 148);
    assert_string_equal(ev->param.conn.private_data, "no");
    assert_int_equal(rdma_ack_cm_event(ev), 0);
    side_free(&client);
    side_free(&server);
}

static void nobody_listens(void **state)
{
    struct side server, client;
    struct rdma_conn_param p = client_param;
    (void)state;
    side_listen(&server);
    uint16_t port = rdma_get_src_port(server.listener);
    side_free(&server);
    side_resolve(&client, port);
    assert_int_equal(rdma_connect(client.id, &p), 0);
    struct rdma_cm_event *ev = next(client.ch, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(ev->status, 8); /* invalid service id */
    assert_int_equal(rdma_ack_cm_event(ev), 0);
    side_free(&client);
}

/* A listener that goes away rejects whom it has not looked at. */
static void listener_goes(void **state)
{
    struct side server, client;
    struct rdma_conn_param p = client_param;
    (void)state;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    assert_int_equal(rdma_connect(client.id, &p), 0);
    struct pollfd f = {.fd = server.ch->fd, .events = POLLIN};
    assert_int_equal(poll(&f, 1, RIG_DEADLINE_MS), 1);
    side_free(&server);
    take(client.ch, RDMA_CM_EVENT_REJECTED);
    side_free(&client);
}

static void addresses(void **state)
{
    struct side server;
    struct rdma_cm_id *id;
    struct sockaddr_in a, foreign = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("203.0.113.77")};
    struct rdma_cm_event *ev;
    (void)state;
    side_listen(&server);
    a = loopback(rdma_get_src_port(server.listener));
    assert_int_equal(rdma_create_id(server.ch, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&a), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&foreign), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(rdma_listen(server.listener, 1), -1);
    assert_int_equal(fcntl(server.ch->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rdma_get_cm_event(server.ch, &ev), -1);
    assert_int_equal(errno, EAGAIN);
    int on = 1;
    assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, 99, &on, sizeof on), -1);
    assert_int_equal(rdma_destroy_id(id), 0);
    int n = 0;
    struct ibv_context **list = rdma_get_devices(&n);
    assert_non_null(list);
    assert_int_equal(n, 1);
    assert_ptr_equal(list[0], server.listener->verbs);
    rdma_free_devices(list);
    side_free(&server);
}

/* A PD of a context that ibv_open_device() returned is not rdma_cm's. */
/* An id bound to the port; NULL (and errno) if it is refused. `address` is in host order. */
static struct rdma_cm_id *bound_id(struct rdma_event_channel *ch, uint32_t address, uint16_t port_be, int reuse)
{
    struct rdma_cm_id *id;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port_be, .sin_addr.s_addr = htonl(address)};
    assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
    if (reuse)
        assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse), 0);
    if (rdma_bind_addr(id, (struct sockaddr *)&a) == 0)
        return id;
    int e = errno;
    rdma_destroy_id(id);
    errno = e;
    return NULL;
}

/* Also what a second process finds. */
static void expect_bind(struct rdma_event_channel *ch, uint32_t address, uint16_t port_be, int reuse, int error)
{
    struct rdma_cm_id *id = bound_id(ch, address, port_be, reuse);
    assert_int_equal(id ? 0 : errno, error);
    if (id)
        assert_int_equal(rdma_destroy_id(id), 0);
}

static void wildcards_and_addresses(void **state)
{
    struct rdma_event_channel *ch = rdma_create_event_channel();
    (void)state;
    struct rdma_cm_id *all = bound_id(ch, INADDR_ANY, 0, 0);
    uint16_t port = rdma_get_src_port(all);
    expect_bind(ch, INADDR_LOOPBACK, port, 0, EADDRNOTAVAIL);
    assert_int_equal(rdma_listen(all, 4), 0);
    expect_bind(ch, INADDR_LOOPBACK, port, 0, EADDRNOTAVAIL);
    expect_bind(ch, INADDR_LOOPBACK, port, 1, EADDRNOTAVAIL);
    expect_bind(ch, INADDR_ANY, port, 0, EADDRNOTAVAIL);
    assert_int_equal(rdma_destroy_id(all), 0);
    struct rdma_cm_id *one = bound_id(ch, INADDR_LOOPBACK, port, 0);
    assert_non_null(one);
    expect_bind(ch, INADDR_LOOPBACK, port, 0, EADDRINUSE);
    expect_bind(ch, INADDR_LOOPBACK, port, 1, EADDRINUSE);
    expect_bind(ch, INADDR_ANY, port, 0, EADDRNOTAVAIL);
    assert_int_equal(rdma_destroy_id(one), 0);
    expect_bind(ch, INADDR_ANY, port, 0, 0);
    rdma_destroy_event_channel(ch);
}

/* Ids that are both to be reused share a port until one of them listens, which it can only alone. */
static void reused(void **state)
{
    struct rdma_event_channel *ch = rdma_create_event_channel();
    (void)state;
    struct rdma_cm_id *a = bound_id(ch, INADDR_LOOPBACK, 0, 1);
    uint16_t port = rdma_get_src_port(a);
    struct rdma_cm_id *b = bound_id(ch, INADDR_LOOPBACK, port, 1);
    assert_non_null(b);
    expect_bind(ch, INADDR_LOOPBACK, port, 0, EADDRINUSE);
    expect_bind(ch, INADDR_ANY, port, 1, 0);
    assert_int_equal(rdma_listen(a, 4), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_destroy_id(b), 0);
    assert_int_equal(rdma_listen(a, 4), 0);
    expect_bind(ch, INADDR_LOOPBACK, port, 1, EADDRINUSE);
    assert_int_equal(rdma_destroy_id(a), 0);
    rdma_destroy_event_channel(ch);
}

/* The ports are the host's, not the process': a child asks while its parent listens. It is run before the device exists. */
static int other_process(int from_parent)
{
    uint16_t port[2];
    if (read(from_parent, port, sizeof port) != sizeof port)
        return 1;
    struct rdma_event_channel *ch = rdma_create_event_channel();
    expect_bind(ch, INADDR_LOOPBACK, port[0], 0, EADDRNOTAVAIL);
    expect_bind(ch, INADDR_ANY, port[0], 0, EADDRINUSE);
    expect_bind(ch, INADDR_LOOPBACK, port[1], 0, EADDRINUSE);
    expect_bind(ch, INADDR_ANY, port[1], 0, EADDRNOTAVAIL);
    expect_bind(ch, INADDR_LOOPBACK, port[1], 1, EADDRINUSE);
    return 0;
}

static int two_processes(void)
{
    int p[2], status;
    uint16_t port[2];
    assert_int_equal(pipe(p), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(other_process(p[0]));
    struct rdma_event_channel *ch = rdma_create_event_channel();
    struct rdma_cm_id *all = bound_id(ch, INADDR_ANY, 0, 0), *one = bound_id(ch, INADDR_LOOPBACK, 0, 0);
    assert_int_equal(rdma_listen(all, 4), 0);
    assert_int_equal(rdma_listen(one, 4), 0);
    port[0] = rdma_get_src_port(all);
    port[1] = rdma_get_src_port(one);
    assert_int_equal(write(p[1], port, sizeof port), sizeof port);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rdma_destroy_id(all), 0);
    assert_int_equal(rdma_destroy_id(one), 0);
    return 0;
}

static void another_process(void **state)
{
    int status;
    (void)state;
    pid_t child = fork(); /* so that the device does not exist for the tests that fork after this one */
    if (child == 0)
        _exit(two_processes());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void foreign_pd(void **state)
{
    struct rig r;
    struct side server, client;
    (void)state;
    rig_open(&r, NULL);
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    rdma_destroy_qp(client.id);
    struct ibv_qp_init_attr a = {.send_cq = client.cq, .recv_cq = client.cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    assert_int_equal(rdma_create_qp(client.id, r.pd, &a), -1);
    assert_int_equal(errno, EINVAL);
    side_free(&client);
    side_free(&server);
    rig_close(&r);
}

/* Whoever connects to the port and talks nonsense, or nothing, harms nobody. */
static void garbage(void **state)
{
    struct side server, client;
    (void)state;
    side_listen(&server);
    struct sockaddr_in a = loopback(rdma_get_src_port(server.listener));
    int fd[8];
    for (int i = 0; i < 8; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd[i], (struct sockaddr *)&a, sizeof a), 0);
        char junk[2000];
        memset(junk, i * 37, sizeof junk);
        if (i)
            assert_true(write(fd[i], junk, (size_t)i * 250) > 0);
    }
    for (int i = 0; i < 8; i += 2)
        close(fd[i]);
    side_free(&server);
    connect_both(&server, &client);
    for (int i = 1; i < 8; i += 2)
        close(fd[i]);
    side_free(&client);
    take(server.ch, RDMA_CM_EVENT_DISCONNECTED); /* destroying without rdma_disconnect() */
    side_free(&server);
}

static int victim(int port_fd)
{
    struct side client;
    struct rdma_conn_param p = client_param;
    static char target[4 << 20];
    uint16_t port;
    if (read(port_fd, &port, sizeof port) != sizeof port)
        return 1;
    side_resolve(&client, port);
    struct ibv_mr *mr = ibv_reg_mr(client.id->pd, target, sizeof target, RIG_ALL);
    uint64_t where[2] = {(uintptr_t)target, mr->rkey};
    char text[48] = "hello";
    memcpy(text + 8, where, sizeof where);
    p.private_data = text;
    p.private_data_len = sizeof text;
    assert_int_equal(rdma_connect(client.id, &p), 0);
    take(client.ch, RDMA_CM_EVENT_ESTABLISHED);
    pause();
    return 0;
}

/* SIGKILL of the peer with READs in flight: DISCONNECTED, the READs end in an error, and so does the QP. */
static void peer_killed(void **state)
{
    struct side server;
    int port_pipe[2];
    (void)state;
    if (getenv("ZC_CM_NO_FORK"))
        skip();
    assert_int_equal(pipe(port_pipe), 0);
    pid_t child = fork(); /* before this process touches the device */
    if (child == 0) {
        alarm(60);
        _exit(victim(port_pipe[0]));
    }
    side_listen(&server);
    uint16_t port = rdma_get_src_port(server.listener);
    assert_int_equal(write(port_pipe[1], &port, sizeof port), sizeof port);
    struct rdma_cm_event *ev = next(server.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
    uint64_t where[2];
    memcpy(where, (const char *)ev->param.conn.private_data + 8, sizeof where);
    server.id = ev->id;
    rdma_ack_cm_event(ev);
    uint8_t timeout = 14;
    assert_int_equal(rdma_set_option(server.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
    side_qp(&server);
    struct rdma_conn_param p = {.responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 6};
    assert_int_equal(rdma_accept(server.id, &p), 0);
    take(server.ch, RDMA_CM_EVENT_ESTABLISHED);

    static uint8_t mine[4 << 20];
    struct ibv_mr *mr = ibv_reg_mr(server.id->pd, mine, sizeof mine, RIG_ALL);
    assert_int_equal(post_rdma(server.id->qp, IBV_WR_RDMA_READ, 1, mine, sizeof mine, mr->lkey, (void *)(uintptr_t)where[0],
                               (uint32_t)where[1]),
                     0);
    rig_expect(server.cq, 1, IBV_WC_SUCCESS);
    for (uint64_t i = 2; i < 30; i++)
        assert_int_equal(post_rdma(server.id->qp, IBV_WR_RDMA_READ, i, mine, sizeof mine, mr->lkey,
                                   (void *)(uintptr_t)where[0], (uint32_t)where[1]),
                         0);
    assert_int_equal(kill(child, SIGKILL), 0);
    take(server.ch, RDMA_CM_EVENT_DISCONNECTED);
    /* on a busy machine all of them may have been done before the signal was sent */
    assert_int_equal(post_rdma(server.id->qp, IBV_WR_RDMA_READ, 30, mine, 64, mr->lkey, (void *)(uintptr_t)where[0],
                               (uint32_t)where[1]),
                     0);
    bool failed = false;
    for (uint64_t i = 2; i <= 30; i++) {
        struct ibv_wc wc = rig_wait(server.cq);
        assert_int_equal(wc.wr_id, i);
        if (failed)
            assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        else if (wc.status != IBV_WC_SUCCESS)
            assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
        failed = wc.status != IBV_WC_SUCCESS;
    }
    assert_true(failed);
    assert_int_equal(rig_state(server.id->qp), IBV_QPS_ERR);
    assert_int_equal(waitpid(child, NULL, 0), child);
    ibv_dereg_mr(mr);
    side_free(&server);
    close(port_pipe[0]);
    close(port_pipe[1]);
}

/* Synchronous ids, endpoints and CQs that rdma_cm makes: the style of rdma_client and rdma_server. */
static void *endpoint_server(void *arg)
{
    struct rdma_cm_id *listen = arg, *id;
    char buf[32];
    struct ibv_wc wc;
    assert_int_equal(rdma_get_request(listen, &id), 0);
    struct ibv_mr *mr = rdma_reg_msgs(id, buf, sizeof buf);
    assert_non_null(mr);
    assert_int_equal(rdma_post_recv(id, NULL, buf, sizeof buf, mr), 0);
    assert_int_equal(rdma_accept(id, NULL), 0);
    assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
    assert_int_equal(rdma_post_send(id, NULL, buf, sizeof buf, mr, 0), 0);
    assert_int_equal(rdma_get_send_comp(id, &wc), 1);
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return NULL;
}

static void endpoints(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
    struct rdma_cm_id *listen, *id;
    struct ibv_qp_init_attr a = {.cap = {2, 2, 1, 1, 0}, .sq_sig_all = 1}, b = a;
    char out[32] = "echo", in[32] = "";
    char port[8];
    struct ibv_wc wc;
    pthread_t thread;
    (void)state;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", "0", &hints, &res), 0);
    assert_int_equal(rdma_create_ep(&listen, res, NULL, &a), 0);
    rdma_freeaddrinfo(res);
    assert_int_equal(rdma_listen(listen, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, endpoint_server, listen), 0);
    snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(listen)));
    hints.ai_flags = 0;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &res), 0);
    assert_int_equal(rdma_create_ep(&id, res, NULL, &b), 0);
    rdma_freeaddrinfo(res);
    struct ibv_mr *mo = rdma_reg_msgs(id, out, sizeof out), *mi = rdma_reg_msgs(id, in, sizeof in);
    assert_int_equal(rdma_post_recv(id, NULL, in, sizeof in, mi), 0);
    assert_int_equal(rdma_connect(id, NULL), 0);
    assert_int_equal(rdma_post_send(id, NULL, out, sizeof out, mo, 0), 0);
    assert_int_equal(rdma_get_send_comp(id, &wc), 1);
    assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
    assert_string_equal(in, "echo");
    rdma_disconnect(id);
    pthread_join(thread, NULL);
    rdma_dereg_mr(mo);
    rdma_dereg_mr(mi);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process), cmocka_unit_test(peer_killed), /* first: they fork before the device exists */
        cmocka_unit_test(whole_life),     cmocka_unit_test(rejected),  cmocka_unit_test(nobody_listens),
        cmocka_unit_test(last_message_first), cmocka_unit_test(the_end_without_polling),
        cmocka_unit_test(listener_goes),  cmocka_unit_test(addresses), cmocka_unit_test(foreign_pd),
        cmocka_unit_test(garbage),        cmocka_unit_test(endpoints), cmocka_unit_test(wildcards_and_addresses),
        cmocka_unit_test(reused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
