/* Failures of the connection: a receiver that is not ready or too small, a peer that is not there. */
#include <string.h>

#include "pair.h"

static void states(struct pair *p, enum ibv_qp_state responder)
{
    say("requester %s", state_name(wait_state(p->qp[0], IBV_QPS_ERR)));
    say("responder %s", state_name(wait_state(p->qp[1], responder)));
}

static void recv_too_short(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    need(post_recv(&p, 1, 5, 99), "ibv_post_recv");
    need(post_recv(&p, 1, 6, 99), "ibv_post_recv");
    need(post_send(&p, 1, 100), "SEND");
    say("send %s", outcome(p.cq[0], 1));
    say("recv %s", tally(p.cq[1], 5, 2));
    states(&p, IBV_QPS_ERR);
}

static void not_ready(const void *arg)
{
    const uint8_t *retries = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.rnr_retry = *retries;
    pair_open(&p, &o);
    need(post_send(&p, 1, 100), "SEND");
    need(post_send(&p, 2, 100), "SEND");
    say("%s", tally(p.cq[0], 1, 2));
    states(&p, IBV_QPS_RTS);
}

static void not_ready_write_imm(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.rnr_retry = 0;
    pair_open(&p, &o);
    fill(&p.buf[0], 1);
    need(post_rdma(&p, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 100), "WRITE_WITH_IMM");
    say("%s", tally(p.cq[0], 1, 1));
    states(&p, IBV_QPS_RTS);
}

/* Receives that come late are found; everything arrives once and in order. rnr_retry 7 is "for ever". */
static void ready_late(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.rnr_retry = 7;
    pair_open(&p, &o);
    for (uint64_t i = 0; i < 3; i++)
        need(post_send(&p, i, 20000), "SEND");
    for (uint64_t i = 0; i < 3; i++) {
        pause_ms(30);
        need(post_recv(&p, 1, 10 + i, 20000), "ibv_post_recv");
    }
    say("send %s", tally(p.cq[0], 0, 3));
    say("recv %s", tally(p.cq[1], 10, 3));
}

enum gone { DESTROYED, RESET, FAILED, NEVER_READY };

static void peer_gone(const void *arg)
{
    const enum gone *how = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.timeout = 12; /* 17 ms */
    o.retry_cnt = 2;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[0], p.qp[1], IBV_QPS_RTS);
    pair_walk(&p, p.qp[1], p.qp[0], *how == NEVER_READY ? IBV_QPS_INIT : IBV_QPS_RTS);
    if (*how == DESTROYED)
        need(ibv_destroy_qp(p.qp[1]), "ibv_destroy_qp");
    else if (*how != NEVER_READY)
        need(to_state(p.qp[1], *how == RESET ? IBV_QPS_RESET : IBV_QPS_ERR), "ibv_modify_qp");
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 100), "READ");
    need(post_rdma(&p, IBV_WR_RDMA_READ, 2, 100), "READ");
    say("%s", tally(p.cq[0], 1, 2));
    say("requester %s", state_name(wait_state(p.qp[0], IBV_QPS_ERR)));
}

/* A peer that gets ready within the retries is found. */
static void peer_late(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.timeout = 17; /* 0.5 s */
    o.retry_cnt = 6;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[0], p.qp[1], IBV_QPS_RTS);
    fill(&p.buf[1], 9);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 10000), "READ");
    pause_ms(50);
    pair_walk(&p, p.qp[1], p.qp[0], IBV_QPS_RTR);
    say("%s", outcome(p.cq[0], 1));
    say("%s", filled(p.buf[0].p, 10000, 9, 0) ? "exact" : "wrong data");
}

/* The responder keeps fewer READs than the requester sends: its answer to that is a NAK, or it has room after all. */
static void too_deep(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.unconnected = true;
    o.rd_atomic = 0;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[1], p.qp[0], IBV_QPS_RTS);
    p.opt.rd_atomic = 16;
    pair_walk(&p, p.qp[0], p.qp[1], IBV_QPS_RTS);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 100), "READ");
    say("%s", outcome(p.cq[0], 1));
}

#define GONE(x) &(const enum gone){x}
#define RETRIES(x) &(const uint8_t){x}
#define NO_ANSWER "1 RETRY_EXC_ERR then 1 WR_FLUSH_ERR, requester ERR"

const struct check failure_checks[] = {
    {"failure_recv_too_short", recv_too_short,
     "send REM_INV_REQ_ERR, recv 1 LOC_LEN_ERR then 1 WR_FLUSH_ERR, requester ERR, responder ERR",
     "IBA 9.7.4.1.7, 11.6.2: local length error", NULL},
    {"failure_rnr_retry_0", not_ready, "1 RNR_RETRY_EXC_ERR then 1 WR_FLUSH_ERR, requester ERR, responder RTS",
     "IBA 9.7.5.2.8, 11.6.2: RNR retry counter exceeded", RETRIES(0)},
    {"failure_rnr_retry_2", not_ready, "1 RNR_RETRY_EXC_ERR then 1 WR_FLUSH_ERR, requester ERR, responder RTS",
     "IBA 9.7.5.2.8, 11.6.2: RNR retry counter exceeded", RETRIES(2)},
    {"failure_rnr_write_imm", not_ready_write_imm, "1 RNR_RETRY_EXC_ERR, requester ERR, responder RTS", "IBA 9.7.5.2.8", NULL},
    {"failure_rnr_late", ready_late, "send 3 ok, recv 3 ok", "IBA 9.7.5.2.8", NULL},
    {"failure_peer_destroyed", peer_gone, NO_ANSWER, "IBA 9.9.2.1.1: transport retry counter exceeded", GONE(DESTROYED)},
    {"failure_peer_reset", peer_gone, NO_ANSWER, "IBA 10.3.1.1: packets are silently dropped", GONE(RESET)},
    {"failure_peer_err", peer_gone, NO_ANSWER, "IBA 10.3.1.7: packets are silently dropped", GONE(FAILED)},
    {"failure_peer_init", peer_gone, NO_ANSWER, "IBA 10.3.1.2: packets are silently dropped", GONE(NEVER_READY)},
    {"failure_peer_late", peer_late, "ok, exact", "IBA 9.7.6.1.3: retried", NULL},
    {"failure_no_read_depth", too_deep, "REM_INV_REQ_ERR", "IBA 9.7.4.1.6: more READs than responder resources, NAK invalid request",
     NULL},
    {0},
};
