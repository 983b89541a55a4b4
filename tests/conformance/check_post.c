/* Posting: in which state what is accepted, when a queue is full, what is refused at once and which request is blamed. */
#include <errno.h>
#include <string.h>

#include "pair.h"

static void send_in_state(const void *arg)
{
    const enum ibv_qp_state *state = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[0], p.qp[1], *state);
    int e = post_send(&p, 1, 100);
    say("%s", error_name(e));
    if (!e)
        say("%s", outcome(p.cq[0], 1));
}

static void recv_in_state(const void *arg)
{
    const enum ibv_qp_state *state = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[0], p.qp[1], *state);
    int e = post_recv(&p, 0, 1, 100);
    say("%s", error_name(e));
    if (!e && *state == IBV_QPS_ERR)
        say("%s", outcome(p.cq[0], 1));
}

/* What is posted in INIT serves the first message. */
static void recv_in_init_kept(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[1], p.qp[0], IBV_QPS_INIT);
    need(post_recv(&p, 1, 7, 100), "ibv_post_recv in INIT");
    int mask;
    struct ibv_qp_attr a = pair_attr(&p, p.qp[1], p.qp[0], IBV_QPS_RTR, &mask);
    need(ibv_modify_qp(p.qp[1], &a, mask), "RTR");
    pair_walk(&p, p.qp[0], p.qp[1], IBV_QPS_RTS);
    need(post_send(&p, 1, 100), "ibv_post_send");
    say("send %s", outcome(p.cq[0], 1));
    say("recv %s", outcome(p.cq[1], 7));
}

/* Posts sends that wait for a receiver until the queue is full; then everything that was accepted is delivered. */
static void sq_full(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    int n = 0, e = 0;
    (void)arg;
    o.cap.max_send_wr = 20;
    o.cap.max_recv_wr = 500;
    o.cqe = 1000;
    pair_open(&p, &o);
    while (n < 500 && (e = post_send(&p, (uint64_t)n, 8)) == 0)
        n++;
    say("%s", n >= 20 ? "as many as asked" : "fewer than asked");
    say("%s", error_name(e));
    for (int i = 0; i < n; i++)
        need(post_recv(&p, 1, (uint64_t)i, 8), "ibv_post_recv");
    const char *t = tally(p.cq[0], 0, n);
    say("%s", strchr(t, ' ') && strcmp(strchr(t, ' '), " ok") == 0 ? "all delivered" : t);
    say("then %s", error_name(post_rdma(&p, IBV_WR_RDMA_WRITE, 1000, 8)));
}

static void rq_full(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    int n = 0, e = 0;
    (void)arg;
    o.cap.max_recv_wr = 20;
    pair_open(&p, &o);
    while (n < 500 && (e = post_recv(&p, 1, (uint64_t)n, 8)) == 0)
        n++;
    say("%s", n >= 20 ? "as many as asked" : "fewer than asked");
    say("%s", error_name(e));
    need(post_send(&p, 1, 8), "ibv_post_send");
    say("%s", outcome(p.cq[0], 1));
    say("%s", outcome(p.cq[1], 0));
    say("then %s", error_name(post_recv(&p, 1, 1000, 8)));
}

/* With every fourth request signaled, its completion gives back the slots of those before it. */
static void slots_come_back(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.cap.max_send_wr = 16;
    pair_open(&p, &o);
    struct ibv_sge s = sge(&p.buf[0], 0, 8);
    struct ibv_send_wr *bad, wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                                   .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey}};
    for (uint64_t i = 0; i < 400; i++) {
        wr.wr_id = i;
        wr.send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
        need(ibv_post_send(p.qp[0], &wr, &bad), "ibv_post_send");
        if (i >= 11 && i % 4 == 3 && strcmp(outcome(p.cq[0], i - 8), "ok"))
            give_up("completion", EPROTO);
    }
    say("ok");
}

/* Of a chain, what is before the bad request is done, and nothing behind it. */
static void chain(const void *arg)
{
    struct pair p;
    struct ibv_sge s[40];
    struct ibv_send_wr wr[3], *bad = NULL;
    (void)arg;
    pair_open(&p, NULL);
    for (size_t i = 0; i < 40; i++)
        s[i] = sge(&p.buf[0], 0, 8);
    for (uint64_t i = 0; i < 3; i++)
        wr[i] = (struct ibv_send_wr){.wr_id = i,
                                     .next = i < 2 ? &wr[i + 1] : NULL,
                                     .sg_list = s,
                                     .num_sge = i == 1 ? 40 : 1, /* more than any device here can do */
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey}};
    say("%s", error_name(ibv_post_send(p.qp[0], wr, &bad)));
    say("%s", bad == &wr[1] ? "bad_wr 1" : "wrong bad_wr");
    say("%s", outcome(p.cq[0], 0));
    say("%s", quiet(p.cq[0]) ? "nothing more" : "more");
}

static void too_many_sges(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    struct ibv_sge s[40];
    (void)arg;
    o.cap.max_send_sge = o.cap.max_recv_sge = 4;
    pair_open(&p, &o);
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    need(ibv_query_qp(p.qp[0], &a, IBV_QP_CAP, &i), "ibv_query_qp");
    for (size_t k = 0; k < 40; k++)
        s[k] = sge(&p.buf[0], 0, 8);
    int n = (int)i.cap.max_send_sge + 1, m = (int)i.cap.max_recv_sge + 1;
    say("send %s", error_name(post(p.qp[0], (struct ibv_send_wr){.sg_list = s, .num_sge = n, .opcode = IBV_WR_SEND})));
    struct ibv_recv_wr r = {.sg_list = s, .num_sge = m}, *bad = NULL;
    say("recv %s", error_name(ibv_post_recv(p.qp[0], &r, &bad)));
    say("%s", bad == &r ? "bad_wr right" : "wrong bad_wr");
}

static void inline_too_large(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.cap.max_inline_data = 64;
    pair_open(&p, &o);
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    need(ibv_query_qp(p.qp[0], &a, IBV_QP_CAP, &i), "ibv_query_qp");
    struct ibv_sge s = sge(&p.buf[0], 0, i.cap.max_inline_data + 1);
    struct ibv_send_wr wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE,
                             .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey}};
    say("%s", error_name(post(p.qp[0], wr)));
    s.length--;
    need(post(p.qp[0], wr), "ibv_post_send of max_inline_data");
    say("%s", outcome(p.cq[0], 0));
}

static void bad_opcode(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    int e = post_rdma(&p, (enum ibv_wr_opcode)200, 1, 8);
    say("%s", e ? error_name(e) : outcome(p.cq[0], 1));
}

#define STATE(s) &(const enum ibv_qp_state){s}

const struct check post_checks[] = {
    {"post_send_reset", send_in_state, "EINVAL", "IBA 10.3.1.1: immediate error", STATE(IBV_QPS_RESET)},
    {"post_send_init", send_in_state, "EINVAL", "IBA 10.3.1.2: immediate error", STATE(IBV_QPS_INIT)},
    {"post_send_rtr", send_in_state, "EINVAL", "IBA 10.3.1.3: immediate error", STATE(IBV_QPS_RTR)},
    {"post_send_err", send_in_state, "ok, WR_FLUSH_ERR", "IBA 10.3.1.7", STATE(IBV_QPS_ERR)},
    {"post_recv_reset", recv_in_state, "EINVAL", "IBA 10.3.1.1: immediate error", STATE(IBV_QPS_RESET)},
    {"post_recv_init", recv_in_state, "ok", "IBA 10.3.1.2", STATE(IBV_QPS_INIT)},
    {"post_recv_err", recv_in_state, "ok, WR_FLUSH_ERR", "IBA 10.3.1.7", STATE(IBV_QPS_ERR)},
    {"post_recv_in_init_kept", recv_in_init_kept, "send ok, recv ok", "IBA 10.3.1.2", NULL},
    {"post_sq_full", sq_full, "as many as asked, ENOMEM, all delivered, then ok", "IBA 10.8.2; ibv_post_send(3)", NULL},
    {"post_rq_full", rq_full, "as many as asked, ENOMEM, ok, ok, then ok", "IBA 10.8.2; ibv_post_recv(3)", NULL},
    {"post_slots_come_back", slots_come_back, "ok", "IBA 10.8.6: an unsignaled request is done when a later one is", NULL},
    {"post_chain", chain, "EINVAL, bad_wr 1, ok, nothing more", "ibv_post_send(3)", NULL},
    {"post_too_many_sges", too_many_sges, "send EINVAL, recv EINVAL, bad_wr right", "IBA 11.4.1.1; ibv_post_send(3)", NULL},
    {"post_inline_too_large", inline_too_large, "EINVAL, ok", "ibv_create_qp(3), ibv_post_send(3)", NULL},
    {"post_bad_opcode", bad_opcode, "EINVAL | EOPNOTSUPP", "IBA 11.4.1.1: invalid operation type", NULL},
    {0},
};
