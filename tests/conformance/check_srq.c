/* Shared receive queues. */
#include <errno.h>
#include <string.h>

#include "pair.h"

static struct pair with_srq(uint32_t size)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    o.srq = true;
    o.cap.max_recv_wr = size;
    o.rnr_retry = 2;
    pair_open(&p, &o);
    return p;
}

static void receive(const void *arg)
{
    struct pair p = with_srq(16);
    struct ibv_wc wc = {0};
    (void)arg;
    fill(&p.buf[0], 1);
    need(post_recv(&p, 1, 50, 1000), "ibv_post_srq_recv");
    need(post_send(&p, 1, 500), "SEND");
    say("send %s", outcome(p.cq[0], 1));
    say("recv %s", next_wc(p.cq[1], &wc, WAIT_MS) ? status_name(wc.status) : "missing");
    say("%s %u bytes", wc.wr_id == 50 && wc.qp_num == p.qp[1]->qp_num ? opcode_name(wc.opcode) : "wrong fields", wc.byte_len);
    say("%s", filled(p.buf[1].p, 500, 1, 0) ? "exact" : "wrong data");
}

static void empty(const void *arg)
{
    struct pair p = with_srq(16);
    (void)arg;
    need(post_send(&p, 1, 500), "SEND");
    say("%s", outcome(p.cq[0], 1));
}

static void full(const void *arg)
{
    struct pair p = with_srq(10);
    int n = 0, e = 0;
    (void)arg;
    while (n < 200 && (e = post_recv(&p, 1, (uint64_t)n, 8)) == 0)
        n++;
    say("%s", n >= 10 ? "as many as asked" : "fewer than asked");
    say("%s", error_name(e));
    need(post_send(&p, 1, 8), "SEND");
    say("%s", outcome(p.cq[1], 0));
    say("then %s", error_name(post_recv(&p, 1, 500, 8)));
}

static void qp_with_srq(const void *arg)
{
    struct pair p = with_srq(10);
    struct ibv_sge s = sge(&p.buf[1], 0, 8);
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1}, *bad = NULL;
    (void)arg;
    say("%s", error_name(ibv_post_recv(p.qp[1], &wr, &bad)));
}

static void too_many_sges(const void *arg)
{
    struct pair p = with_srq(10);
    struct ibv_sge s[64];
    struct ibv_srq_attr a;
    (void)arg;
    need(ibv_query_srq(p.srq, &a), "ibv_query_srq");
    for (int i = 0; i < 64; i++)
        s[i] = sge(&p.buf[1], 0, 8);
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = s, .num_sge = (int)a.max_sge + 1}, *bad = NULL;
    say("%s", a.max_sge < 64 ? error_name(ibv_post_srq_recv(p.srq, &wr, &bad)) : "EINVAL");
}

static void query(const void *arg)
{
    struct pair p = with_srq(10);
    struct ibv_srq_attr a = {0};
    (void)arg;
    need(ibv_query_srq(p.srq, &a), "ibv_query_srq");
    say("%s", a.max_wr >= 10 && a.max_sge >= p.opt.cap.max_recv_sge ? "caps cover" : "caps too small");
    say("limit %u", a.srq_limit);
    a.srq_limit = 3;
    need(ibv_modify_srq(p.srq, &a, IBV_SRQ_LIMIT), "ibv_modify_srq");
    need(ibv_query_srq(p.srq, &a), "ibv_query_srq");
    say("limit %u", a.srq_limit);
    a.srq_limit = a.max_wr + 1;
    say("beyond %s", error_name(ibv_modify_srq(p.srq, &a, IBV_SRQ_LIMIT)));
}

/* The event comes once, when fewer than `limit` receives are left, and disarms the limit. */
static void limit(const void *arg)
{
    struct pair p = with_srq(16);
    struct ibv_srq_attr a = {.srq_limit = 3};
    void *element = NULL;
    (void)arg;
    for (uint64_t i = 0; i < 5; i++)
        need(post_recv(&p, 1, i, 8), "ibv_post_srq_recv");
    need(ibv_modify_srq(p.srq, &a, IBV_SRQ_LIMIT), "ibv_modify_srq");
    for (uint64_t i = 0; i < 2; i++)
        need(post_send(&p, i, 8), "SEND");
    if (strcmp(tally(p.cq[0], 0, 2), "2 ok"))
        give_up("SEND", EPROTO);
    const char *e = async_event(p.ctx, QUIET_MS, NULL);
    say("3 left: %s", e ? e : "no event");
    need(post_send(&p, 2, 8), "SEND");
    e = async_event(p.ctx, WAIT_MS, &element);
    say("2 left: %s", e ? e : "no event");
    say("%s", element == p.srq ? "right SRQ" : "another element");
    need(ibv_query_srq(p.srq, &a), "ibv_query_srq");
    say("limit %u", a.srq_limit);
    need(post_send(&p, 3, 8), "SEND");
    e = async_event(p.ctx, QUIET_MS, NULL);
    say("1 left: %s", e ? e : "no event");
}

/* When a queue pair fails its SRQ keeps its receives; the event tells when the QP will take no more of them. */
static void last_wqe(const void *arg)
{
    struct pair p = with_srq(16);
    void *element = NULL;
    (void)arg;
    for (uint64_t i = 0; i < 4; i++)
        need(post_recv(&p, 1, i, 8), "ibv_post_srq_recv");
    need(to_state(p.qp[1], IBV_QPS_ERR), "ERR");
    const char *e = async_event(p.ctx, 2000, &element);
    say("%s", !e ? "no event" : element == p.qp[1] ? e : "event of another QP");
    say("%s", quiet(p.cq[1]) ? "no flush" : "flush");
    p.qp[0] = pair_qp(&p, 0);
    p.qp[1] = pair_qp(&p, 1);
    pair_walk(&p, p.qp[0], p.qp[1], IBV_QPS_RTS);
    pair_walk(&p, p.qp[1], p.qp[0], IBV_QPS_RTS);
    need(post_send(&p, 1, 8), "SEND");
    say("next QP receives %s", outcome(p.cq[1], 0));
}

static void resize(const void *arg)
{
    struct pair p = with_srq(8);
    struct ibv_srq_attr a = {.max_wr = 200};
    (void)arg;
    int e = ibv_modify_srq(p.srq, &a, IBV_SRQ_MAX_WR);
    if (!(p.dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE)) {
        say("%s", e ? "not offered" : "not offered but done");
        return;
    }
    say("%s", error_name(e));
    int n = 0;
    while (n < 200 && post_recv(&p, 1, (uint64_t)n, 8) == 0)
        n++;
    say("%d receives", n);
}

static void limits(const void *arg)
{
    struct pair p = {0};
    (void)arg;
    pair_device(&p);
    struct ibv_srq_init_attr a = {.attr = {.max_wr = (uint32_t)p.dev.max_srq_wr + 1, .max_sge = 1}};
    say("wr %s", error_name(ibv_create_srq(p.pd, &a) ? 0 : -1));
    a.attr.max_wr = 1;
    a.attr.max_sge = (uint32_t)p.dev.max_srq_sge + 1;
    say("sge %s", error_name(ibv_create_srq(p.pd, &a) ? 0 : -1));
}

const struct check srq_checks[] = {
    {"srq_receive", receive, "send ok, recv ok, RECV 500 bytes, exact", "IBA 10.2.9", NULL},
    {"srq_empty", empty, "RNR_RETRY_EXC_ERR", "IBA 10.2.9, 9.7.5.2.8", NULL},
    {"srq_full", full, "as many as asked, ENOMEM, ok, then ok", "IBA 10.2.9; ibv_post_srq_recv(3)", NULL},
    {"srq_post_recv_to_qp", qp_with_srq, "EINVAL", "IBA 11.4.1.2; ibv_create_qp(3)", NULL},
    {"srq_too_many_sges", too_many_sges, "EINVAL", "IBA 11.4.1.2", NULL},
    {"srq_query", query, "caps cover, limit 0, limit 3, beyond EINVAL", "IBA 11.2.4.2, 11.2.4.3; ibv_modify_srq(3)", NULL},
    {"srq_limit", limit,
     "3 left: no event, 2 left: SRQ_LIMIT_REACHED, right SRQ, limit 0, 1 left: no event",
     "IBA 10.2.9.3, 11.6.3.1; ibv_modify_srq(3)", NULL},
    {"srq_last_wqe", last_wqe, "LAST_WQE_REACHED, no flush, next QP receives ok", "IBA 11.6.3.1: last WQE reached, 10.3.1.7", NULL},
    {"srq_resize", resize, "ok, 200 receives | not offered", "IBA 11.2.4.3; ibv_modify_srq(3)", NULL},
    {"srq_limits", limits, "wr EINVAL, sge EINVAL", "IBA 11.2.4.1; ibv_create_srq(3)", NULL},
    {0},
};
