/* What becomes of work that is under way when its queue pair fails or goes, or its memory is deregistered. */
#include <stdio.h>
#include <string.h>

#include "pair.h"

/* Nothing under way: sends wait for a receiver, receives for a sender. */
static void flush_all(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.rnr_retry = 7;
    o.min_rnr_timer = 0; /* 655 ms */
    pair_open(&p, &o);
    for (uint64_t i = 0; i < 8; i++) {
        need(post_recv(&p, 0, 100 + i, 100), "ibv_post_recv");
        struct ibv_sge s = sge(&p.buf[0], 0, 100);
        struct ibv_send_wr *bad, wr = {.wr_id = i, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
                                       .send_flags = i % 2 ? IBV_SEND_SIGNALED : 0};
        need(ibv_post_send(p.qp[0], &wr, &bad), "SEND");
    }
    need(to_state(p.qp[0], IBV_QPS_ERR), "ERR");
    int sends = 0, recvs = 0;
    struct ibv_wc wc;
    for (int i = 0; i < 16; i++) {
        if (!next_wc(p.cq[0], &wc, WAIT_MS)) {
            say("%d missing", 16 - i);
            return;
        }
        int *count = wc.wr_id >= 100 ? &recvs : &sends;
        if (wc.status != IBV_WC_WR_FLUSH_ERR || wc.wr_id % 100 != (uint64_t)*count) {
            say("wr_id %lu %s", (unsigned long)wc.wr_id, status_name(wc.status));
            return;
        }
        ++*count;
    }
    say("%d sends in order, %d receives in order", sends, recvs);
    say("%s", quiet(p.cq[0]) ? "nothing more" : "more");
}

/* RESET forgets everything: no completions. */
static void reset_forgets(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    for (uint64_t i = 0; i < 8; i++)
        need(post_recv(&p, 1, i, 100), "ibv_post_recv");
    need(to_state(p.qp[1], IBV_QPS_RESET), "RESET");
    say("%s", quiet(p.cq[1]) ? "nothing" : "completions");
    pair_walk(&p, p.qp[1], p.qp[0], IBV_QPS_INIT);
    need(post_recv(&p, 1, 50, 100), "ibv_post_recv");
    need(to_state(p.qp[1], IBV_QPS_ERR), "ERR");
    say("then %s", tally(p.cq[1], 50, 1));
}

#define PIECE 65536u
#define PIECES 32

static struct pair busy_pair(void)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    o.size = PIECE * PIECES;
    o.timeout = 12;
    pair_open(&p, &o);
    memset(p.buf[1].p, 1, o.size);
    for (uint64_t i = 0; i < PIECES; i++) {
        struct ibv_sge s = sge(&p.buf[0], i * PIECE, PIECE);
        need(post(p.qp[0], (struct ibv_send_wr){.wr_id = i,
                                                .sg_list = &s,
                                                .num_sge = 1,
                                                .opcode = IBV_WR_RDMA_READ,
                                                .wr.rdma = {(uintptr_t)p.buf[1].p + i * PIECE, p.buf[1].mr->rkey}}),
             "READ");
    }
    return p;
}

/* Completions of busy_pair's READs: some succeed, then perhaps one fails with one of two statuses, the rest is flushed. */
static void some_then_failure(struct pair *p, enum ibv_wc_status a, enum ibv_wc_status b)
{
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    struct ibv_wc wc;
    for (uint64_t i = 0; i < PIECES; i++) {
        if (!next_wc(p->cq[0], &wc, WAIT_MS) || wc.wr_id != i) {
            say("completion %lu missing", (unsigned long)i);
            return;
        }
        bool right = status == IBV_WC_SUCCESS ? wc.status == IBV_WC_SUCCESS || wc.status == a || wc.status == b
                                              : wc.status == IBV_WC_WR_FLUSH_ERR;
        if (!right) {
            say("completion %lu: %s", (unsigned long)i, status_name(wc.status));
            return;
        }
        if (status == IBV_WC_SUCCESS)
            status = wc.status;
    }
    say("all complete");
}

static void untouched(const struct buffer *b)
{
    pause_ms(50);
    for (size_t i = 0; i < b->size; i++)
        if (b->p[i] != 9) {
            say("memory touched afterwards");
            return;
        }
    say("memory left alone");
}

static void dereg_target(const void *arg)
{
    struct pair p = busy_pair();
    (void)arg;
    say("%s", error_name(ibv_dereg_mr(p.buf[0].mr)));
    memset(p.buf[0].p, 9, p.buf[0].size);
    some_then_failure(&p, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR);
    untouched(&p.buf[0]);
}

static void dereg_source(const void *arg)
{
    struct pair p = busy_pair();
    (void)arg;
    say("%s", error_name(ibv_dereg_mr(p.buf[1].mr)));
    some_then_failure(&p, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR);
}

static void destroy_requester(const void *arg)
{
    struct pair p = busy_pair();
    (void)arg;
    say("%s", error_name(ibv_destroy_qp(p.qp[0])));
    memset(p.buf[0].p, 9, p.buf[0].size);
    untouched(&p.buf[0]);
    say("CQ %s", error_name(ibv_destroy_cq(p.cq[0])));
    say("MR %s", error_name(ibv_dereg_mr(p.buf[0].mr)));
}

static void destroy_responder(const void *arg)
{
    struct pair p = busy_pair();
    (void)arg;
    say("%s", error_name(ibv_destroy_qp(p.qp[1])));
    some_then_failure(&p, IBV_WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR);
}

/* Completions of a queue pair that is gone: there or not, but polling and the CQ are sound. */
static void completions_of_the_gone(const void *arg)
{
    struct pair p;
    struct ibv_wc wc[16];
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_qp *other = pair_qp(&p, 0);
    for (uint64_t i = 0; i < 8; i++)
        need(post_rdma(&p, IBV_WR_RDMA_WRITE, i, 8), "WRITE");
    pause_ms(500);
    need(ibv_destroy_qp(p.qp[0]), "ibv_destroy_qp");
    int n = ibv_poll_cq(p.cq[0], 16, wc);
    say("%s", n == 0 || n == 8 ? "all or none" : "some");
    pair_walk(&p, other, p.qp[1], IBV_QPS_ERR);
    p.qp[0] = other;
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 20, 8), "WRITE");
    say("another %s", outcome(p.cq[0], 20));
}

const struct check flush_checks[] = {
    {"flush_all", flush_all, "8 sends in order, 8 receives in order, nothing more", "IBA 10.3.1.7, 11.6.2: flushed", NULL},
    {"flush_reset_forgets", reset_forgets, "nothing, then 1 WR_FLUSH_ERR", "IBA 10.3.1.1", NULL},
    {"flush_dereg_target", dereg_target, "ok, all complete, memory left alone", "IBA 11.2.7.4 (deregister), 11.6.2", NULL},
    {"flush_dereg_source", dereg_source, "ok, all complete", "IBA 11.2.7.4 (deregister), 9.7.4.1.5", NULL},
    {"flush_destroy_requester", destroy_requester, "ok, memory left alone, CQ ok, MR ok", "IBA 11.2.5.4, 10.2.4.4", NULL},
    {"flush_destroy_responder", destroy_responder, "ok, all complete", "IBA 9.9.2.1.1", NULL},
    {"flush_completions_of_the_gone", completions_of_the_gone, "all or none, another WR_FLUSH_ERR", "IBA 11.2.5.4", NULL},
    {0},
};
