/* What can be asked for at creation, what is told about it afterwards, and what cannot be destroyed while it is in use. */
#include <errno.h>
#include <string.h>

#include "pair.h"

static int create_qp(struct pair *p, struct ibv_qp_cap cap)
{
    struct ibv_qp_init_attr a = {.send_cq = p->cq[0], .recv_cq = p->cq[0], .cap = cap, .qp_type = IBV_QPT_RC};
    errno = 0;
    return ibv_create_qp(p->pd, &a) ? 0 : -1;
}

static void beyond_the_limits(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    const struct ibv_device_attr *d = &p.dev;
    uint32_t wr = (uint32_t)d->max_qp_wr + 1, sges = (uint32_t)d->max_sge + 1;
    say("send_wr %s", error_name(create_qp(&p, (struct ibv_qp_cap){wr, 1, 1, 1, 0})));
    say("recv_wr %s", error_name(create_qp(&p, (struct ibv_qp_cap){1, wr, 1, 1, 0})));
    say("send_sge %s", error_name(create_qp(&p, (struct ibv_qp_cap){1, 1, sges, 1, 0})));
    say("recv_sge %s", error_name(create_qp(&p, (struct ibv_qp_cap){1, 1, 1, sges, 0})));
    say("inline %s", error_name(create_qp(&p, (struct ibv_qp_cap){1, 1, 1, 1, 1u << 24})));
}

static void cq_limits(const void *arg)
{
    struct pair p = {0};
    (void)arg;
    pair_device(&p);
    say("0 %s", error_name(ibv_create_cq(p.ctx, 0, NULL, NULL, 0) ? 0 : -1));
    say("beyond %s", error_name(ibv_create_cq(p.ctx, p.dev.max_cqe + 1, NULL, NULL, 0) ? 0 : -1));
    say("vector %s", error_name(ibv_create_cq(p.ctx, 1, NULL, NULL, p.ctx->num_comp_vectors) ? 0 : -1));
    struct ibv_cq *cq = need_ptr(ibv_create_cq(p.ctx, 100, NULL, NULL, 0), "ibv_create_cq");
    say("%s", cq->cqe >= 100 ? "at least as asked" : "fewer than asked");
}

/* The transport types that are not offered are refused. */
static void other_types(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_qp_init_attr a = {.send_cq = p.cq[0], .recv_cq = p.cq[0], .cap = {1, 1, 1, 1, 0}, .qp_type = (enum ibv_qp_type)77};
    struct ibv_qp *qp = ibv_create_qp(p.pd, &a);
    say("%s", qp ? "created" : "refused");
}

static bool covers(struct ibv_qp_cap got, struct ibv_qp_cap asked)
{
    return got.max_send_wr >= asked.max_send_wr && got.max_recv_wr >= asked.max_recv_wr &&
           got.max_send_sge >= asked.max_send_sge && got.max_recv_sge >= asked.max_recv_sge &&
           got.max_inline_data >= asked.max_inline_data;
}

static void query_qp(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    (void)arg;
    o.cap = (struct ibv_qp_cap){33, 17, 3, 2, 100};
    o.sig_all = true;
    o.rd_atomic = 9;
    pair_open(&p, &o);
    memset(&a, 0, sizeof a);
    memset(&i, 0, sizeof i);
    need(ibv_query_qp(p.qp[0], &a, -1 & 0x1fffff, &i), "ibv_query_qp");
    say("%s", state_name(a.qp_state));
    say("%s", covers(i.cap, o.cap) && covers(a.cap, o.cap) ? "caps cover" : "caps too small");
    say("%u READs out %u in", a.max_rd_atomic, a.max_dest_rd_atomic);
    say("%s", a.timeout == o.timeout && a.retry_cnt == o.retry_cnt &&
                      a.rnr_retry == o.rnr_retry && a.min_rnr_timer == o.min_rnr_timer
                  ? "as set"
                  : "not as set");
    say("%s", a.dest_qp_num == p.qp[1]->qp_num && a.qp_access_flags == ALL_ACCESS && a.path_mtu == IBV_MTU_1024 &&
                      memcmp(&a.ah_attr.grh.dgid, &p.gid, sizeof p.gid) == 0
                  ? "as connected"
                  : "not as connected");
    say("%s", i.send_cq == p.cq[0] && i.recv_cq == p.cq[0] && !i.srq && i.sq_sig_all && i.qp_type == IBV_QPT_RC
                  ? "as created"
                  : "not as created");
}

/* What is in use stays, and works on. */
static void busy(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.srq = o.channel = true;
    pair_open(&p, &o);
    say("PD %s", error_name(ibv_dealloc_pd(p.pd)));
    say("CQ %s", error_name(ibv_destroy_cq(p.cq[0])));
    say("SRQ %s", error_name(ibv_destroy_srq(p.srq)));
    say("channel %s", error_name(ibv_destroy_comp_channel(p.channel)));
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 100), "ibv_post_send");
    say("%s", outcome(p.cq[0], 1));
}

/* Each thing alone holds the PD. */
static void pd_busy(const void *arg)
{
    struct pair p = {0};
    (void)arg;
    pair_device(&p);
    struct buffer b = pair_buffer(p.pd, 4096, ALL_ACCESS);
    say("MR %s", error_name(ibv_dealloc_pd(p.pd)));
    need(ibv_dereg_mr(b.mr), "ibv_dereg_mr");
    struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = need_ptr(ibv_create_srq(p.pd, &a), "ibv_create_srq");
    say("SRQ %s", error_name(ibv_dealloc_pd(p.pd)));
    need(ibv_destroy_srq(srq), "ibv_destroy_srq");
    say("nothing %s", error_name(ibv_dealloc_pd(p.pd)));
}

static void all_destroyed(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.srq = o.channel = true;
    pair_open(&p, &o);
    for (int i = 0; i < 2; i++) {
        need(ibv_destroy_qp(p.qp[i]), "ibv_destroy_qp");
        need(ibv_dereg_mr(p.buf[i].mr), "ibv_dereg_mr");
        need(ibv_destroy_cq(p.cq[i]), "ibv_destroy_cq");
    }
    need(ibv_destroy_srq(p.srq), "ibv_destroy_srq");
    need(ibv_destroy_comp_channel(p.channel), "ibv_destroy_comp_channel");
    need(ibv_dealloc_pd(p.pd), "ibv_dealloc_pd");
    need(ibv_close_device(p.ctx), "ibv_close_device");
    say("ok");
}

const struct check create_checks[] = {
    {"create_qp_limits", beyond_the_limits, "send_wr EINVAL, recv_wr EINVAL, send_sge EINVAL, recv_sge EINVAL, inline EINVAL",
     "IBA 11.2.5.1; ibv_create_qp(3)", NULL},
    {"create_qp_type", other_types, "refused", "ibv_create_qp(3)", NULL},
    {"create_cq_limits", cq_limits, "0 EINVAL, beyond EINVAL, vector EINVAL, at least as asked",
     "IBA 11.2.8.1; ibv_create_cq(3)", NULL},
    {"query_qp", query_qp, "RTS, caps cover, 9 READs out 9 in, as set, as connected, as created", "IBA 11.2.5.3; ibv_query_qp(3)", NULL},
    {"destroy_busy", busy, "PD EBUSY, CQ EBUSY, SRQ EBUSY, channel EBUSY, ok",
     "IBA 11.2.3.2, 11.2.8.4, 11.2.4.4; ibv_destroy_cq(3)", NULL},
    {"dealloc_pd_busy", pd_busy, "MR EBUSY, SRQ EBUSY, nothing ok", "IBA 11.2.3.2; ibv_alloc_pd(3)", NULL},
    {"destroy_all", all_destroyed, "ok", "IBA 11.2", NULL},
    {0},
};
