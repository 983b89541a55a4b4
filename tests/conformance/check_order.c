/* In which order things happen, and which of them complete visibly. */
#include <stdio.h>
#include <string.h>

#include "pair.h"

static struct ibv_send_wr rdma(struct pair *p, enum ibv_wr_opcode op, uint64_t wr_id, struct ibv_sge *s, size_t remote_at)
{
    return (struct ibv_send_wr){.wr_id = wr_id,
                                .sg_list = s,
                                .num_sge = 1,
                                .opcode = op,
                                .wr.rdma = {(uintptr_t)p->buf[1].p + remote_at, p->buf[1].mr->rkey}};
}

static int post_as_is(struct ibv_qp *qp, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad;
    return ibv_post_send(qp, &wr, &bad);
}

static void unsignaled(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_sge s = sge(&p.buf[0], 0, 100);
    for (uint64_t i = 0; i < 7; i++)
        need(post_as_is(p.qp[0], rdma(&p, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, &s, 0)), "ibv_post_send");
    need(post(p.qp[0], rdma(&p, IBV_WR_RDMA_WRITE, 7, &s, 0)), "ibv_post_send");
    say("%s", tally(p.cq[0], 7, 1));
    say("%s", quiet(p.cq[0]) ? "nothing more" : "more");
}

static void sig_all(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.sig_all = true;
    pair_open(&p, &o);
    struct ibv_sge s = sge(&p.buf[0], 0, 100);
    for (uint64_t i = 0; i < 5; i++)
        need(post_as_is(p.qp[0], rdma(&p, IBV_WR_RDMA_WRITE, i, &s, 0)), "ibv_post_send");
    say("%s", tally(p.cq[0], 0, 5));
}

/* An unsignaled request that fails completes all the same. */
static void unsignaled_failure(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_sge s = sge(&p.buf[0], 0, 100);
    need(post_as_is(p.qp[0], rdma(&p, IBV_WR_RDMA_WRITE, 0, &s, 0)), "ibv_post_send");
    struct ibv_send_wr wr = rdma(&p, IBV_WR_RDMA_WRITE, 1, &s, 0);
    wr.wr.rdma.rkey++;
    need(post_as_is(p.qp[0], wr), "ibv_post_send");
    say("%s", tally(p.cq[0], 1, 1));
    say("%s", quiet(p.cq[0]) ? "nothing more" : "more");
}

static void sends_in_order(const void *arg)
{
    struct pair p;
    uint32_t *value;
    (void)arg;
    pair_open(&p, NULL);
    value = (uint32_t *)(void *)p.buf[0].p;
    for (uint64_t i = 0; i < 50; i++) {
        struct ibv_sge s = sge(&p.buf[1], (size_t)i * 100, 100);
        struct ibv_recv_wr r = {.wr_id = 100 + i, .sg_list = &s, .num_sge = 1}, *bad;
        need(ibv_post_recv(p.qp[1], &r, &bad), "ibv_post_recv");
    }
    for (uint32_t i = 0; i < 50; i++) {
        value[i * 25] = i + 1;
        struct ibv_sge s = sge(&p.buf[0], i * 100, i > 2 ? i * 2 : 4);
        need(post(p.qp[0], (struct ibv_send_wr){.wr_id = i, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND}), "SEND");
    }
    say("send %s", tally(p.cq[0], 0, 50));
    say("recv %s", tally(p.cq[1], 100, 50));
    bool right = true;
    for (uint32_t i = 0; i < 50; i++)
        right = right && ((uint32_t *)(void *)p.buf[1].p)[i * 25] == i + 1;
    say("%s", right ? "each in its place" : "out of place");
}

/* Many more READs than may be outstanding: all complete, in order, all exact. */
static void read_depth(const void *arg)
{
    const uint8_t *depth = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.rd_atomic = *depth;
    pair_open(&p, &o);
    fill(&p.buf[1], 4);
    for (uint64_t i = 0; i < 64; i++) {
        struct ibv_sge s = sge(&p.buf[0], i * 1000, 1000);
        need(post(p.qp[0], rdma(&p, IBV_WR_RDMA_READ, i, &s, i * 1000)), "READ");
    }
    say("%s", tally(p.cq[0], 0, 64));
    say("%s", filled(p.buf[0].p, 64000, 4, 0) ? "exact" : "wrong data");
}

/* A fenced WRITE behind a READ of the same memory does not show in what the READ returns. */
static void read_then_write(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.size = 1 << 20;
    pair_open(&p, &o);
    fill(&p.buf[1], 1);
    struct buffer other = pair_buffer(p.pd, o.size, ALL_ACCESS);
    fill(&other, 2);
    struct ibv_sge in = sge(&p.buf[0], 0, 1 << 20), out = sge(&other, 0, 1 << 20);
    need(post(p.qp[0], rdma(&p, IBV_WR_RDMA_READ, 0, &in, 0)), "READ");
    struct ibv_send_wr wr = rdma(&p, IBV_WR_RDMA_WRITE, 1, &out, 0);
    wr.send_flags = IBV_SEND_FENCE; /* without it the two may overtake each other */
    need(post(p.qp[0], wr), "WRITE");
    say("%s", tally(p.cq[0], 0, 2));
    say("READ has the %s data", filled(p.buf[0].p, 1 << 20, 1, 0) ? "old" : "new");
    say("%s", filled(p.buf[1].p, 1 << 20, 2, 0) ? "written" : "not written");
}

/* A READ behind a WRITE returns what was written. */
static void write_then_read(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    fill(&p.buf[0], 3);
    struct buffer other = pair_buffer(p.pd, 65536, ALL_ACCESS);
    struct ibv_sge out = sge(&p.buf[0], 0, 65536), in = sge(&other, 0, 65536);
    need(post(p.qp[0], rdma(&p, IBV_WR_RDMA_WRITE, 0, &out, 0)), "WRITE");
    need(post(p.qp[0], rdma(&p, IBV_WR_RDMA_READ, 1, &in, 0)), "READ");
    say("%s", tally(p.cq[0], 0, 2));
    say("%s", filled(other.p, 65536, 3, 0) ? "exact" : "wrong data");
}

/* With a fence a WRITE sends what the READ before it has brought. */
static void fence(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    fill(&p.buf[1], 6);
    for (uint64_t i = 0; i < 10; i++) {
        memset(p.buf[0].p, 0, 20000);
        memset(p.buf[1].p + 20000, 0, 20000);
        struct ibv_sge s = sge(&p.buf[0], 0, 20000);
        need(post(p.qp[0], rdma(&p, IBV_WR_RDMA_READ, 0, &s, 0)), "READ");
        struct ibv_send_wr wr = rdma(&p, IBV_WR_RDMA_WRITE, 1, &s, 20000);
        wr.send_flags = IBV_SEND_FENCE;
        need(post(p.qp[0], wr), "WRITE");
        if (strcmp(tally(p.cq[0], 0, 2), "2 ok") || !filled(p.buf[1].p + 20000, 20000, 6, 0)) {
            say("round %lu: wrong data", (unsigned long)i);
            return;
        }
    }
    say("ok");
}

/* When the receiver knows of a SEND, the WRITE before it is in its memory. */
static void write_then_send(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    fill(&p.buf[0], 7);
    struct ibv_recv_wr r = {.wr_id = 5}, *bad;
    need(ibv_post_recv(p.qp[1], &r, &bad), "ibv_post_recv");
    struct ibv_sge s = sge(&p.buf[0], 0, 65536);
    need(post_as_is(p.qp[0], rdma(&p, IBV_WR_RDMA_WRITE, 0, &s, 0)), "WRITE");
    need(post(p.qp[0], (struct ibv_send_wr){.wr_id = 1, .opcode = IBV_WR_SEND}), "SEND");
    say("recv %s", outcome(p.cq[1], 5));
    say("%s", filled(p.buf[1].p, 65536, 7, 0) ? "exact" : "wrong data");
}

/* What is before the failure completes, what is behind it is flushed. */
static void failure_in_the_middle(const void *arg)
{
    const bool *local = arg;
    struct pair p;
    pair_open(&p, NULL);
    for (uint64_t i = 0; i < 8; i++) {
        struct ibv_sge s = sge(&p.buf[0], 0, 8000);
        struct ibv_send_wr wr = rdma(&p, i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, i, &s, 0);
        if (i == 4 && *local)
            s.lkey++;
        else if (i == 4)
            wr.wr.rdma.rkey++;
        need(post(p.qp[0], wr), "ibv_post_send");
    }
    say("%s", tally(p.cq[0], 0, 8));
}

const struct check order_checks[] = {
    {"order_unsignaled", unsignaled, "1 ok, nothing more", "IBA 10.8.5.1; ibv_post_send(3): IBV_SEND_SIGNALED", NULL},
    {"order_sig_all", sig_all, "5 ok", "ibv_create_qp(3): sq_sig_all", NULL},
    {"order_unsignaled_failure", unsignaled_failure, "1 REM_ACCESS_ERR, nothing more", "IBA 10.8.5.1: errors always complete",
     NULL},
    {"order_sends", sends_in_order, "send 50 ok, recv 50 ok, each in its place", "IBA 9.5, 10.8.3.3", NULL},
    {"order_read_depth_1", read_depth, "64 ok, exact", "IBA 9.7.3.1.2: max_rd_atomic is waited for", &(const uint8_t){1}},
    {"order_read_depth_4", read_depth, "64 ok, exact", "IBA 9.7.3.1.2: max_rd_atomic is waited for", &(const uint8_t){4}},
    {"order_read_then_write", read_then_write, "2 ok, READ has the old data, written", "IBA 10.8.3.3, table of ordering rules: F",
     NULL},
    {"order_write_then_read", write_then_read, "2 ok, exact", "IBA 10.8.3.3, table of ordering rules", NULL},
    {"order_fence", fence, "ok", "IBA 10.8.3.3: fence", NULL},
    {"order_write_then_send", write_then_send, "recv ok, exact", "IBA 9.5, o9-20", NULL},
    {"order_failure_remote", failure_in_the_middle, "4 ok then 1 REM_ACCESS_ERR then 3 WR_FLUSH_ERR", "IBA 10.8.6.1, 9.9.2",
     &(const bool){false}},
    {"order_failure_local", failure_in_the_middle, "4 ok then 1 LOC_PROT_ERR then 3 WR_FLUSH_ERR", "IBA 10.8.6.1, 9.9.2",
     &(const bool){true}},
    {0},
};
