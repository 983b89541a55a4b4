/* What arrives, and what the completions on both sides say about it. */
#include <arpa/inet.h>
#include <string.h>

#include "pair.h"

static struct ibv_wc take(struct ibv_cq *cq, uint64_t wr_id)
{
    struct ibv_wc wc = {0};
    if (!next_wc(cq, &wc, WAIT_MS))
        say("no completion");
    else if (wc.status != IBV_WC_SUCCESS || wc.wr_id != wr_id)
        say("%s", wc.wr_id == wr_id ? status_name(wc.status) : "completion of another request");
    return wc;
}

static void exact(const uint8_t *p, size_t n, uint8_t seed, size_t from)
{
    say("%s", filled(p, n, seed, from) ? "exact" : "wrong data");
}

static void read_remote(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    fill(&p.buf[1], 5);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 10001), "ibv_post_send");
    struct ibv_wc wc = take(p.cq[0], 1);
    say("%s %u bytes", opcode_name(wc.opcode), wc.byte_len);
    say("%s", wc.qp_num == p.qp[0]->qp_num ? "qp_num" : "wrong qp_num");
    exact(p.buf[0].p, 10001, 5, 0);
    say("%s", p.buf[0].p[10001] == 0 ? "no more" : "more than asked");
    say("%s", quiet(p.cq[1]) ? "responder silent" : "responder has a completion");
}

static void write_remote(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    fill(&p.buf[0], 6);
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 1, 10001), "ibv_post_send");
    say("%s", opcode_name(take(p.cq[0], 1).opcode));
    exact(p.buf[1].p, 10001, 6, 0);
    say("%s", p.buf[1].p[10001] == 0 ? "no more" : "more than asked");
}

static void send_recv(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    fill(&p.buf[0], 7);
    need(post_recv(&p, 1, 9, 20000), "ibv_post_recv");
    need(post_send(&p, 1, 10001), "ibv_post_send");
    say("%s", opcode_name(take(p.cq[0], 1).opcode));
    struct ibv_wc wc = take(p.cq[1], 9);
    say("%s %u bytes flags %u", opcode_name(wc.opcode), wc.byte_len, wc.wc_flags);
    say("%s", wc.qp_num == p.qp[1]->qp_num ? "qp_num" : "wrong qp_num");
    exact(p.buf[1].p, 10001, 7, 0);
}

static void immediate(const void *arg)
{
    const enum ibv_wr_opcode *op = arg;
    struct pair p;
    pair_open(&p, NULL);
    fill(&p.buf[0], 8);
    need(post_recv(&p, 1, 9, 20000), "ibv_post_recv");
    struct ibv_sge s = sge(&p.buf[0], 0, 10001);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = *op, .imm_data = htonl(0x12345678)};
    uint8_t *target = p.buf[1].p;
    if (*op == IBV_WR_RDMA_WRITE_WITH_IMM) {
        target += 30000;
        wr.wr.rdma.remote_addr = (uintptr_t)target;
        wr.wr.rdma.rkey = p.buf[1].mr->rkey;
    }
    need(post(p.qp[0], wr), "ibv_post_send");
    say("%s", opcode_name(take(p.cq[0], 1).opcode));
    struct ibv_wc wc = take(p.cq[1], 9);
    say("%s %u bytes", opcode_name(wc.opcode), wc.byte_len);
    say("%s", wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 0x12345678 ? "immediate" : "no immediate");
    exact(target, 10001, 8, 0);
}

static int post_atomic(struct pair *p, enum ibv_wr_opcode op, uint64_t compare_add, uint64_t swap)
{
    struct ibv_sge s = sge(&p->buf[0], 0, 8);
    return post(p->qp[0], (struct ibv_send_wr){.wr_id = 1,
                                               .sg_list = &s,
                                               .num_sge = 1,
                                               .opcode = op,
                                               .wr.atomic = {.remote_addr = (uintptr_t)p->buf[1].p,
                                                             .compare_add = compare_add,
                                                             .swap = swap,
                                                             .rkey = p->buf[1].mr->rkey}});
}

static void atomics(const void *arg)
{
    struct pair p;
    uint64_t *remote, *local;
    (void)arg;
    pair_open(&p, NULL);
    if (p.dev.atomic_cap == IBV_ATOMIC_NONE) {
        say("not offered");
        return;
    }
    remote = (uint64_t *)(void *)p.buf[1].p;
    local = (uint64_t *)(void *)p.buf[0].p;
    *remote = UINT64_MAX;
    need(post_atomic(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0), "ibv_post_send");
    struct ibv_wc wc = take(p.cq[0], 1);
    say("%s %u bytes %s", opcode_name(wc.opcode), wc.byte_len, *local == UINT64_MAX && *remote == 2 ? "right" : "wrong");
    need(post_atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 77), "ibv_post_send");
    wc = take(p.cq[0], 1);
    say("%s %u bytes %s", opcode_name(wc.opcode), wc.byte_len, *local == 2 && *remote == 77 ? "right" : "wrong");
    need(post_atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 99), "ibv_post_send");
    take(p.cq[0], 1);
    say("no match %s", *local == 77 && *remote == 77 ? "right" : "wrong");
}

static void zero_length(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey}};
    need(post(p.qp[0], wr), "READ");
    say("READ %s", outcome(p.cq[0], 1));
    wr.opcode = IBV_WR_RDMA_WRITE;
    need(post(p.qp[0], wr), "WRITE");
    say("WRITE %s", outcome(p.cq[0], 1));
    struct ibv_recv_wr r = {.wr_id = 2}, *bad;
    need(ibv_post_recv(p.qp[1], &r, &bad), "ibv_post_recv");
    wr.opcode = IBV_WR_SEND;
    need(post(p.qp[0], wr), "SEND");
    say("SEND %s", outcome(p.cq[0], 1));
    say("RECV %u bytes", take(p.cq[1], 2).byte_len);
    struct ibv_sge s = sge(&p.buf[0], 0, 0); /* an SGE of length 0 is another way to say it */
    wr.sg_list = &s;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    need(post(p.qp[0], wr), "WRITE");
    say("empty SGE %s", outcome(p.cq[0], 1));
}

/* As many SGEs as the device has, of odd sizes: gathered by a WRITE, scattered by a READ and by a receive. */
static void scatter_gather(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p = {0};
    struct ibv_sge s[64];
    uint32_t n, total = 0;
    (void)arg;
    pair_device(&p);
    n = (uint32_t)(p.dev.max_sge < 64 ? p.dev.max_sge : 64);
    o.cap.max_send_sge = o.cap.max_recv_sge = n;
    pair_open(&p, &o);
    fill(&p.buf[0], 9);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = sge(&p.buf[0], total, i * 37 % 1000);
        total += s[i].length;
    }
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = s, .num_sge = (int)n, .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey}};
    need(post(p.qp[0], wr), "WRITE");
    say("WRITE %s", outcome(p.cq[0], 1));
    exact(p.buf[1].p, total, 9, 0);
    memset(p.buf[0].p, 0, p.buf[0].size);
    wr.opcode = IBV_WR_RDMA_READ;
    need(post(p.qp[0], wr), "READ");
    say("READ %s", outcome(p.cq[0], 1));
    exact(p.buf[0].p, total, 9, 0);
    for (uint32_t i = 0, at = 0; i < n; at += s[i++].length)
        s[i] = sge(&p.buf[1], at, s[i].length);
    memset(p.buf[1].p, 0, p.buf[1].size);
    struct ibv_recv_wr r = {.wr_id = 2, .sg_list = s, .num_sge = (int)n}, *bad;
    need(ibv_post_recv(p.qp[1], &r, &bad), "ibv_post_recv");
    need(post_send(&p, 1, total), "SEND");
    say("RECV %s", outcome(p.cq[1], 2));
    exact(p.buf[1].p, total, 9, 0);
}

/* Inline data is copied when it is posted, whatever memory it is in. */
static void inline_data(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    char text[64] = "inline, from memory that is not registered";
    (void)arg;
    o.cap.max_inline_data = 64;
    pair_open(&p, &o);
    struct ibv_sge s[2] = {{.addr = (uintptr_t)text, .length = 10}, {.addr = (uintptr_t)text + 10, .length = 54}};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = s, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_INLINE, .wr.rdma = {(uintptr_t)p.buf[1].p, p.buf[1].mr->rkey}};
    need(post(p.qp[0], wr), "WRITE");
    memset(text, 'x', sizeof text);
    say("WRITE %s", outcome(p.cq[0], 1));
    say("%s", strcmp((char *)p.buf[1].p, "inline, from memory that is not registered") ? "wrong data" : "exact");
    strcpy(text, "inline send");
    wr.opcode = IBV_WR_SEND;
    need(post_recv(&p, 1, 2, 64), "ibv_post_recv");
    need(post(p.qp[0], wr), "SEND");
    memset(text, 'y', sizeof text);
    say("RECV %u bytes", take(p.cq[1], 2).byte_len);
    say("%s", strcmp((char *)p.buf[1].p, "inline send") ? "wrong data" : "exact");
}

static void large_message(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.size = 2u << 20;
    pair_open(&p, &o);
    fill(&p.buf[1], 10);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, (uint32_t)o.size), "READ");
    say("READ %s", outcome(p.cq[0], 1));
    exact(p.buf[0].p, o.size, 10, 0);
    fill(&p.buf[0], 11);
    need(post_recv(&p, 1, 2, (uint32_t)o.size), "ibv_post_recv");
    need(post_send(&p, 1, (uint32_t)o.size), "SEND");
    say("SEND %s", outcome(p.cq[0], 1));
    exact(p.buf[1].p, o.size, 11, 0);
}

/* A queue pair connected to itself is a peer like any other. */
static void loopback(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[0], p.qp[0], IBV_QPS_RTS);
    fill(&p.buf[1], 12);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 5000), "READ");
    say("%s", outcome(p.cq[0], 1));
    exact(p.buf[0].p, 5000, 12, 0);
}

const struct check data_checks[] = {
    {"data_read", read_remote, "RDMA_READ 10001 bytes, qp_num, exact, no more, responder silent", "IBA 9.4.4, 11.4.2.1", NULL},
    {"data_write", write_remote, "RDMA_WRITE, exact, no more", "IBA 9.4.3", NULL},
    {"data_send", send_recv, "SEND, RECV 10001 bytes flags 0, qp_num, exact", "IBA 9.4.1, 11.4.2.1", NULL},
    {"data_send_imm", immediate, "SEND, RECV 10001 bytes, immediate, exact", "IBA 9.4.1, 11.4.2.1; ibv_poll_cq(3)",
     &(const enum ibv_wr_opcode){IBV_WR_SEND_WITH_IMM}},
    {"data_write_imm", immediate, "RDMA_WRITE, RECV_RDMA_WITH_IMM 10001 bytes, immediate, exact",
     "IBA 9.4.3, 11.4.2.1; ibv_poll_cq(3)", &(const enum ibv_wr_opcode){IBV_WR_RDMA_WRITE_WITH_IMM}},
    {"data_atomics", atomics, "FETCH_ADD 8 bytes right, COMP_SWAP 8 bytes right, no match right | not offered", "IBA 9.4.5",
     NULL},
    {"data_zero_length", zero_length, "READ ok, WRITE ok, SEND ok, RECV 0 bytes, empty SGE ok", "IBA 9.4, 10.6.3.1", NULL},
    {"data_scatter_gather", scatter_gather, "WRITE ok, exact, READ ok, exact, RECV ok, exact", "IBA 11.4.1.1", NULL},
    {"data_inline", inline_data, "WRITE ok, exact, RECV 64 bytes, exact", "ibv_post_send(3): IBV_SEND_INLINE", NULL},
    {"data_large", large_message, "READ ok, exact, SEND ok, exact", "IBA 9.7.7", NULL},
    {"data_loopback", loopback, "ok, exact", "IBA 9.5: no exception for oneself", NULL},
    {0},
};
