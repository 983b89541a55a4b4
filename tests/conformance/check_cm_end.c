/* rdma_cm: how connections end. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "side.h"

static void pend_receive(struct side *s, struct buffer *b)
{
    *b = pair_buffer(s->id->pd, 4096, ALL_ACCESS);
    struct ibv_sge e = sge(b, 0, 100);
    struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &e, .num_sge = 1}, *bad;
    need(ibv_post_recv(s->id->qp, &wr, &bad), "ibv_post_recv");
}

static void disconnect(const void *arg)
{
    struct side server, client;
    struct buffer a, b;
    (void)arg;
    side_connect(&server, &client, NULL);
    pend_receive(&server, &a);
    pend_receive(&client, &b);
    say("%s", error_name(rdma_disconnect(client.id)));
    say("client %s", outcome(client.cq, 9));
    side_take(&server, RDMA_CM_EVENT_DISCONNECTED);
    say("server %s", state_name(state_of(server.id->qp)));
    need(rdma_disconnect(server.id), "rdma_disconnect of the server");
    say("server %s", outcome(server.cq, 9));
    side_take(&client, RDMA_CM_EVENT_DISCONNECTED);
    say("both DISCONNECTED");
    say("%s/%s", state_name(state_of(client.id->qp)), state_name(state_of(server.id->qp)));
}

/* Whoever disconnects is told when the other side has answered, which it does by its own rdma_disconnect(). */
static void disconnect_answered(const void *arg)
{
    struct side server, client;
    (void)arg;
    side_connect(&server, &client, NULL);
    need(rdma_disconnect(client.id), "rdma_disconnect");
    side_take(&server, RDMA_CM_EVENT_DISCONNECTED);
    struct rdma_cm_event *ev = side_any(&client, QUIET_MS);
    say("before: %s", ev ? cm_event_name(ev->event) : "no event");
    need(rdma_disconnect(server.id), "rdma_disconnect");
    if (!ev)
        ev = side_any(&client, WAIT_MS);
    say("after: %s", ev ? cm_event_name(ev->event) : "no event");
}

/* Both at once: each is told once. */
static void disconnect_both(const void *arg)
{
    struct side server, client;
    (void)arg;
    side_connect(&server, &client, NULL);
    need(rdma_disconnect(client.id), "rdma_disconnect");
    need(rdma_disconnect(server.id), "rdma_disconnect");
    side_take(&client, RDMA_CM_EVENT_DISCONNECTED);
    side_take(&server, RDMA_CM_EVENT_DISCONNECTED);
    say("both DISCONNECTED");
}

/* An id that is destroyed while it is connected: the other side learns of it. */
static void destroy_connected(const void *arg)
{
    struct side server, client;
    (void)arg;
    side_connect(&server, &client, NULL);
    rdma_destroy_qp(client.id);
    say("%s", error_name(rdma_destroy_id(client.id)));
    side_take(&server, RDMA_CM_EVENT_DISCONNECTED);
    say("DISCONNECTED");
}

static atomic_bool destroyed;

static void *destroy(void *id)
{
    need(rdma_destroy_id(id), "rdma_destroy_id");
    atomic_store(&destroyed, true);
    return NULL;
}

/* rdma_destroy_id() waits until the events of the id are acknowledged. */
static void unacknowledged(const void *arg)
{
    struct side server, client;
    pthread_t t;
    (void)arg;
    side_connect(&server, &client, NULL);
    need(rdma_disconnect(client.id), "rdma_disconnect");
    struct rdma_cm_event *ev = side_next(&server, RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(server.id);
    need(pthread_create(&t, NULL, destroy, server.id), "pthread_create");
    pause_ms(QUIET_MS);
    say("%s", atomic_load(&destroyed) ? "does not wait" : "waits");
    need(rdma_ack_cm_event(ev), "rdma_ack_cm_event");
    need(pthread_join(t, NULL), "pthread_join");
    say("destroyed");
}

/* Events of an id that nobody has fetched vanish with it. */
static void unfetched(const void *arg)
{
    struct side server, client;
    (void)arg;
    side_connect(&server, &client, NULL);
    need(rdma_disconnect(client.id), "rdma_disconnect");
    pause_ms(300);
    rdma_destroy_qp(server.id);
    need(rdma_destroy_id(server.id), "rdma_destroy_id");
    struct rdma_cm_event *ev = side_any(&server, QUIET_MS);
    say("%s", ev ? cm_event_name(ev->event) : "no event");
}

/* What waits at a listener that goes away is rejected. */
static void listener_goes(const void *arg)
{
    struct side server, client;
    struct rdma_conn_param p = {.retry_count = 3, .rnr_retry_count = 3};
    (void)arg;
    side_listen(&server);
    side_resolve(&client, rdma_get_src_port(server.listener));
    need(rdma_connect(client.id, &p), "rdma_connect");
    pause_ms(200);
    say("destroy %s", error_name(rdma_destroy_id(server.listener)));
    struct rdma_cm_event *ev = side_next(&client, RDMA_CM_EVENT_REJECTED);
    say("REJECTED status %d", ev->status);
}

/* --- a process that dies ------------------------------------------------------------------------------------------------ */

static _Noreturn void victim(int port_fd)
{
    struct side client;
    uint16_t port;
    answer_close();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(port_fd, &port, sizeof port) != sizeof port)
        _exit(1);
    side_resolve(&client, port);
    struct buffer b = pair_buffer(client.id->pd, 4096, ALL_ACCESS);
    uint64_t where[2] = {(uintptr_t)b.p, b.mr->rkey};
    struct rdma_conn_param p = {.private_data = where, .private_data_len = sizeof where, .responder_resources = 4,
                                .initiator_depth = 4, .retry_count = 3, .rnr_retry_count = 3};
    need(rdma_connect(client.id, &p), "rdma_connect");
    side_take(&client, RDMA_CM_EVENT_ESTABLISHED);
    for (;;)
        pause();
}

/* SIGKILL: the other side is told, and READs from the dead end in an error. */
static void killed(const void *arg)
{
    struct side server;
    int fd[2];
    (void)arg;
    need(pipe(fd), "pipe");
    pid_t pid = fork(); /* before this process touches the device */
    if (pid == 0)
        victim(fd[0]);
    side_listen(&server);
    uint16_t port = rdma_get_src_port(server.listener);
    if (write(fd[1], &port, sizeof port) != sizeof port)
        give_up("write", -1);
    struct rdma_cm_event *ev = side_next(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
    uint64_t where[2];
    memcpy(where, ev->param.conn.private_data, sizeof where);
    server.id = ev->id;
    need(rdma_ack_cm_event(ev), "rdma_ack_cm_event");
    uint8_t timeout = 14; /* 67 ms instead of 2 s */
    need(rdma_set_option(server.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), "rdma_set_option");
    side_qp(&server);
    struct rdma_conn_param p = {.responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 3};
    need(rdma_accept(server.id, &p), "rdma_accept");
    side_take(&server, RDMA_CM_EVENT_ESTABLISHED);
    struct buffer b = pair_buffer(server.id->pd, 4096, ALL_ACCESS);
    struct ibv_sge s = sge(&b, 0, 100);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                             .wr.rdma = {where[0], (uint32_t)where[1]}};
    need(post(server.id->qp, wr), "READ");
    say("alive %s", outcome(server.cq, 1));
    need(kill(pid, SIGKILL), "kill");
    waitpid(pid, NULL, 0);
    side_take(&server, RDMA_CM_EVENT_DISCONNECTED);
    say("DISCONNECTED");
    wr.wr_id = 2;
    need(post(server.id->qp, wr), "READ");
    say("dead %s", outcome(server.cq, 2));
    say("%s", state_name(state_of(server.id->qp)));
}

const struct check cm_end_checks[] = {
    {"cm_disconnect", disconnect, "ok, client WR_FLUSH_ERR, server RTS, server WR_FLUSH_ERR, both DISCONNECTED, ERR/ERR",
     "IBA 12.9.7.2; rdma_disconnect(3)", NULL},
    {"cm_disconnect_answered", disconnect_answered, "before: no event, after: DISCONNECTED",
     "IBA 12.9.7.2: DREP ends the wait for it", NULL},
    {"cm_disconnect_both", disconnect_both, "both DISCONNECTED", "IBA 12.9.7.2; rdma_disconnect(3)", NULL},
    {"cm_destroy_connected", destroy_connected, "ok, DISCONNECTED", "IBA 12.9.7.2; rdma_destroy_id(3)", NULL},
    {"cm_destroy_waits_for_ack", unacknowledged, "waits, destroyed", "rdma_destroy_id(3)", NULL},
    {"cm_unfetched_events", unfetched, "no event", "rdma_destroy_id(3): events of the id are cancelled", NULL},
    {"cm_listener_goes", listener_goes, "destroy ok, REJECTED status 28 | destroy ok, REJECTED status 8", "IBA 12.6.7.2", NULL},
    {"cm_peer_killed", killed, "alive ok, DISCONNECTED, dead RETRY_EXC_ERR, ERR | alive ok, DISCONNECTED, dead WR_FLUSH_ERR, ERR",
     "IBA 9.9.2.1.1, 12.9.7.2", NULL},
    {0},
};
