/* Memory windows and invalidation. A device may lack them, but then its attributes say so. */
#include <errno.h>
#include <string.h>

#include "pair.h"

enum { BINDABLE = ALL_ACCESS | IBV_ACCESS_MW_BIND };

static struct pair open_pair(void)
{
    struct pair p;
    pair_open(&p, NULL);
    fill(&p.buf[1], 1);
    return p;
}

/* False, and said so, if the device has no such windows. */
static bool window(struct pair *p, enum ibv_mw_type type, struct ibv_mw **mw)
{
    unsigned int cap = type == IBV_MW_TYPE_1 ? IBV_DEVICE_MEM_WINDOW : IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    bool offered = p->dev.device_cap_flags & cap;
    errno = 0;
    *mw = ibv_alloc_mw(p->pd, type);
    if (!*mw)
        say("%s", offered ? error_name(-1) : errno == EOPNOTSUPP ? "not offered" : error_name(-1));
    else if (!offered)
        say("not offered but there");
    if (!*mw)
        return false;
    need(ibv_dereg_mr(p->buf[1].mr), "ibv_dereg_mr");
    p->buf[1].mr = need_ptr(ibv_reg_mr(p->pd, p->buf[1].p, p->buf[1].size, BINDABLE), "ibv_reg_mr with MW_BIND");
    return true;
}

static const char *read_through(struct pair *p, uint32_t rkey, size_t at)
{
    struct ibv_sge s = sge(&p->buf[0], 0, 1000);
    need(post(p->qp[0], (struct ibv_send_wr){.wr_id = 1,
                                             .sg_list = &s,
                                             .num_sge = 1,
                                             .opcode = IBV_WR_RDMA_READ,
                                             .wr.rdma = {(uintptr_t)p->buf[1].p + at, rkey}}),
         "READ");
    const char *got = outcome(p->cq[0], 1);
    return strcmp(got, "ok") == 0 && !filled(p->buf[0].p, 1000, 1, at) ? "wrong data" : got;
}

static struct ibv_mw_bind_info range(struct pair *p, size_t at, size_t length)
{
    return (struct ibv_mw_bind_info){.mr = p->buf[1].mr,
                                     .addr = (uintptr_t)p->buf[1].p + at,
                                     .length = length,
                                     .mw_access_flags = length ? IBV_ACCESS_REMOTE_READ : 0};
}

static void type_1(const void *arg)
{
    const bool *outside = arg;
    struct pair p = open_pair();
    struct ibv_mw *mw;
    if (!window(&p, IBV_MW_TYPE_1, &mw))
        return;
    struct ibv_mw_bind b = {.wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = range(&p, 4096, 8192)};
    need(ibv_bind_mw(p.qp[1], mw, &b), "ibv_bind_mw");
    say("bind %s", outcome(p.cq[1], 5));
    uint32_t rkey = mw->rkey;
    if (*outside) {
        say("outside %s", read_through(&p, rkey, 4095));
        return;
    }
    say("inside %s", read_through(&p, rkey, 5000));
    b.bind_info = range(&p, 0, 0);
    need(ibv_bind_mw(p.qp[1], mw, &b), "ibv_bind_mw of nothing");
    say("unbind %s", outcome(p.cq[1], 5));
    say("then %s", read_through(&p, rkey, 5000));
}

static bool bind_2(struct pair *p, struct ibv_mw *mw, uint32_t rkey)
{
    int e = post(p->qp[1], (struct ibv_send_wr){.wr_id = 5,
                                                .opcode = IBV_WR_BIND_MW,
                                                .bind_mw = {.mw = mw, .rkey = rkey, .bind_info = range(p, 4096, 8192)}});
    const char *got = e ? error_name(e) : outcome(p->cq[1], 5);
    if (strcmp(got, "ok") == 0)
        return true;
    say("bind %s", got);
    return false;
}

static void type_2(const void *arg)
{
    struct pair p = open_pair();
    struct ibv_mw *mw;
    (void)arg;
    if (!window(&p, IBV_MW_TYPE_2, &mw))
        return;
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (!bind_2(&p, mw, rkey))
        return;
    say("inside %s", read_through(&p, rkey, 5000));
    say("MR %s", ibv_dereg_mr(p.buf[1].mr) ? "held" : "deregistered");
    need(post(p.qp[1], (struct ibv_send_wr){.wr_id = 6, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey}), "LOCAL_INV");
    say("LOCAL_INV %s", outcome(p.cq[1], 6));
    say("then %s", read_through(&p, rkey, 5000));
    need(ibv_dealloc_mw(mw), "ibv_dealloc_mw");
    say("MR %s", ibv_dereg_mr(p.buf[1].mr) ? "held" : "deregistered");
}

/* A window of type 2 serves the queue pair that bound it and no other. */
static void type_2_other_qp(const void *arg)
{
    struct pair p = open_pair();
    struct ibv_mw *mw;
    (void)arg;
    if (!window(&p, IBV_MW_TYPE_2, &mw))
        return;
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (!bind_2(&p, mw, rkey))
        return;
    p.qp[0] = pair_qp(&p, 0);
    struct ibv_qp *responder = pair_qp(&p, 1);
    pair_walk(&p, p.qp[0], responder, IBV_QPS_RTS);
    pair_walk(&p, responder, p.qp[0], IBV_QPS_RTS);
    say("%s", read_through(&p, rkey, 5000));
}

static void send_with_inv(const void *arg)
{
    struct pair p = open_pair();
    struct ibv_mw *mw;
    (void)arg;
    if (!window(&p, IBV_MW_TYPE_2, &mw))
        return;
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (!bind_2(&p, mw, rkey))
        return;
    need(post_recv(&p, 1, 7, 100), "ibv_post_recv");
    struct ibv_sge s = sge(&p.buf[0], 0, 50);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey};
    need(post(p.qp[0], wr), "SEND_WITH_INV");
    struct ibv_wc wc = {0};
    say("send %s", outcome(p.cq[0], 1));
    say("recv %s", next_wc(p.cq[1], &wc, WAIT_MS) ? status_name(wc.status) : "missing");
    say("%s", wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == rkey ? "rkey told" : "rkey not told");
    say("then %s", read_through(&p, rkey, 5000));
}

/* Without windows there is nothing to invalidate: the request is refused, at once or by its completion. */
static void inv_unknown(const void *arg)
{
    struct pair p = open_pair();
    (void)arg;
    int e = post(p.qp[1], (struct ibv_send_wr){.wr_id = 6, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x12345678});
    const char *got = e ? error_name(e) : outcome(p.cq[1], 6);
    say("%s", strcmp(got, "ok") ? "refused" : "ok");
}

static void not_bindable(const void *arg)
{
    struct pair p = open_pair();
    struct ibv_mw *mw;
    (void)arg;
    if (!window(&p, IBV_MW_TYPE_2, &mw))
        return;
    p.buf[1] = pair_buffer(p.pd, 65536, ALL_ACCESS);
    if (bind_2(&p, mw, ibv_inc_rkey(mw->rkey)))
        say("bind ok");
}

#define ABSENT " | not offered"
#define MAY "IBA 10.6.7.2, optional"

const struct check window_checks[] = {
    {"window_type_1", type_1, "bind ok, inside ok, unbind ok, then REM_ACCESS_ERR" ABSENT, MAY ": type 1", &(const bool){false}},
    {"window_type_1_outside", type_1, "bind ok, outside REM_ACCESS_ERR" ABSENT, MAY ": type 1", &(const bool){true}},
    {"window_type_2", type_2, "inside ok, MR held, LOCAL_INV ok, then REM_ACCESS_ERR, MR deregistered" ABSENT,
     MAY ": type 2, local invalidate 10.6.5", NULL},
    {"window_type_2_other_qp", type_2_other_qp, "REM_ACCESS_ERR" ABSENT, MAY ": type 2", NULL},
    {"window_send_with_inv", send_with_inv, "send ok, recv ok, rkey told, then REM_ACCESS_ERR" ABSENT,
     MAY ": remote invalidate 9.4.1.1", NULL},
    {"window_mr_not_bindable", not_bindable, "bind MW_BIND_ERR" ABSENT, "IBA 11.6.2: memory window bind error", NULL},
    {"window_inv_unknown", inv_unknown, "refused", "IBA 10.6.5, 11.6.2", NULL},
    {0},
};
