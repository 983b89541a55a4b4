/* Asynchronous events, and objects that wait until theirs are acknowledged. (CQ and SRQ events: with their objects.) */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pair.h"

static void tell(struct pair *p, int ms, const void *expected)
{
    void *element = NULL;
    const char *e = async_event(p->ctx, ms, &element);
    say("%s", !e ? "no event" : element == expected ? e : "event of another object");
}

/* The first packet finds the responder in RTR. */
static void established(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[1], p.qp[0], IBV_QPS_RTR);
    pair_walk(&p, p.qp[0], p.qp[1], IBV_QPS_RTS);
    need(post_recv(&p, 1, 5, 100), "ibv_post_recv");
    need(post_send(&p, 1, 100), "SEND");
    say("%s", outcome(p.cq[0], 1));
    tell(&p, 2000, p.qp[1]);
    say("%s", state_name(state_of(p.qp[1])));
}

static void access_violation(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_sge s = sge(&p.buf[0], 0, 8);
    need(post(p.qp[0], (struct ibv_send_wr){.wr_id = 1,
                                            .sg_list = &s,
                                            .num_sge = 1,
                                            .opcode = IBV_WR_RDMA_WRITE,
                                            .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey + 1}}),
         "WRITE");
    say("%s", outcome(p.cq[0], 1));
    tell(&p, 2000, p.qp[1]);
}

static void invalid_request(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.qp_access[1] = IBV_ACCESS_REMOTE_WRITE;
    pair_open(&p, &o);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 8), "READ");
    say("%s", outcome(p.cq[0], 1));
    tell(&p, 2000, p.qp[1]);
}

/* A requester is told of its failure by the completion and by nothing else. */
static void none_for_completions(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.rnr_retry = 0;
    pair_open(&p, &o);
    need(post_send(&p, 1, 8), "SEND");
    say("%s", outcome(p.cq[0], 1));
    tell(&p, QUIET_MS, NULL);
    need(to_state(p.qp[1], IBV_QPS_ERR), "ERR");
    tell(&p, QUIET_MS, NULL);
}

static void not_blocking(const void *arg)
{
    struct pair p = {0};
    struct ibv_async_event e;
    (void)arg;
    pair_device(&p);
    need(fcntl(p.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
    int rc = ibv_get_async_event(p.ctx, &e);
    say("%s", rc ? error_name(-1) : "an event");
}

static atomic_bool destroyed;

static void *destroy(void *qp)
{
    need(ibv_destroy_qp(qp), "ibv_destroy_qp");
    atomic_store(&destroyed, true);
    return NULL;
}

static void destroy_waits(const void *arg)
{
    struct pair p;
    struct ibv_async_event e;
    pthread_t t;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    need(ibv_modify_qp(p.qp[0], &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "SQD");
    need(ibv_get_async_event(p.ctx, &e), "ibv_get_async_event");
    need(pthread_create(&t, NULL, destroy, p.qp[0]), "pthread_create");
    pause_ms(QUIET_MS);
    say("%s", atomic_load(&destroyed) ? "does not wait" : "waits");
    ibv_ack_async_event(&e);
    need(pthread_join(t, NULL), "pthread_join");
    say("destroyed");
}

const struct check event_checks[] = {
    {"event_comm_est", established, "ok, COMM_EST, RTR", "IBA 11.6.3.1: communication established", NULL},
    {"event_access_violation", access_violation, "REM_ACCESS_ERR, QP_ACCESS_ERR",
     "IBA 9.9.3 class C, 11.6.3.2: local access violation work queue error", NULL},
    {"event_invalid_request", invalid_request, "REM_INV_REQ_ERR, QP_REQ_ERR",
     "IBA 9.9.3 class C, 11.6.3.2: invalid request local work queue error", NULL},
    {"event_none_for_completions", none_for_completions, "RNR_RETRY_EXC_ERR, no event, no event", "IBA 11.6.3", NULL},
    {"event_not_blocking", not_blocking, "EAGAIN", "ibv_get_async_event(3)", NULL},
    {"event_destroy_waits_for_ack", destroy_waits, "waits, destroyed", "ibv_get_async_event(3)", NULL},
    {0},
};
