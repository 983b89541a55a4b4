#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct pair_options pair_defaults = {
    .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4},
    .cqe = 256,
    .qp_access = {ALL_ACCESS, ALL_ACCESS},
    .mr_access = {ALL_ACCESS, ALL_ACCESS},
    .rd_atomic = 16,
    .timeout = 14,
    .retry_cnt = 3,
    .rnr_retry = 6,
    .min_rnr_timer = 12,
    .size = 65536,
};

uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void pause_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

union ibv_gid pair_gid(struct ibv_context *ctx, uint8_t *index)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    union ibv_gid gid;
    struct ibv_port_attr port;
    need(ibv_query_port(ctx, 1, &port), "ibv_query_port");
    for (int i = 0; i < port.gid_tbl_len && i < 256; i++)
        if (ibv_query_gid(ctx, 1, i, &gid) == 0 && memcmp(gid.raw, mapped, sizeof mapped) == 0) {
            *index = (uint8_t)i;
            return gid;
        }
    need(ibv_query_gid(ctx, 1, 0, &gid), "ibv_query_gid");
    *index = 0;
    return gid;
}

void pair_device(struct pair *p)
{
    struct ibv_device **list = need_ptr(ibv_get_device_list(NULL), "ibv_get_device_list");
    p->ctx = need_ptr(list[0] ? ibv_open_device(list[0]) : NULL, "ibv_open_device");
    ibv_free_device_list(list);
    need(ibv_query_device(p->ctx, &p->dev), "ibv_query_device");
    p->gid = pair_gid(p->ctx, &p->gid_index);
    p->pd = need_ptr(ibv_alloc_pd(p->ctx), "ibv_alloc_pd");
}

struct ibv_qp *pair_qp(struct pair *p, int side)
{
    struct ibv_qp_init_attr_ex a = {
        .send_cq = p->cq[side],
        .recv_cq = p->cq[side],
        .srq = side == 1 ? p->srq : NULL,
        .cap = p->opt.cap,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = p->opt.sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = p->pd,
    };
    if (p->opt.send_ops) {
        a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        a.send_ops_flags = p->opt.send_ops;
    }
    return need_ptr(ibv_create_qp_ex(p->ctx, &a), "ibv_create_qp_ex");
}

struct buffer pair_buffer(struct ibv_pd *pd, size_t size, unsigned int access)
{
    struct buffer b = {.size = size, .p = need_ptr(aligned_alloc(4096, (size + 4095) / 4096 * 4096), "memory")};
    memset(b.p, 0, size);
    b.mr = need_ptr(ibv_reg_mr(pd, b.p, size, access), "ibv_reg_mr");
    return b;
}

void pair_open(struct pair *p, const struct pair_options *opt)
{
    memset(p, 0, sizeof *p);
    p->opt = opt ? *opt : pair_defaults;
    pair_device(p);
    if (p->opt.channel)
        p->channel = need_ptr(ibv_create_comp_channel(p->ctx), "ibv_create_comp_channel");
    for (int i = 0; i < 2; i++)
        p->cq[i] = need_ptr(ibv_create_cq(p->ctx, p->opt.cqe, p, p->channel, 0), "ibv_create_cq");
    if (p->opt.srq) {
        struct ibv_srq_init_attr a = {.attr = {.max_wr = p->opt.cap.max_recv_wr, .max_sge = p->opt.cap.max_recv_sge}};
        p->srq = need_ptr(ibv_create_srq(p->pd, &a), "ibv_create_srq");
    }
    for (int i = 0; i < 2; i++) {
        p->qp[i] = pair_qp(p, i);
        p->buf[i] = pair_buffer(p->pd, p->opt.size, p->opt.mr_access[i]);
    }
    for (int i = 0; i < 2 && !p->opt.unconnected; i++)
        pair_walk(p, p->qp[i], p->qp[!i], IBV_QPS_RTS);
}

struct ibv_qp_attr pair_attr(struct pair *p, struct ibv_qp *qp, struct ibv_qp *peer, enum ibv_qp_state to, int *mask)
{
    const struct pair_options *o = &p->opt;
    struct ibv_qp_attr a = {.qp_state = to};
    *mask = IBV_QP_STATE;
    switch (to) {
    case IBV_QPS_INIT:
        a.port_num = 1;
        a.qp_access_flags = o->qp_access[qp == p->qp[1]];
        *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        break;
    case IBV_QPS_RTR:
        a.path_mtu = IBV_MTU_1024;
        a.dest_qp_num = peer->qp_num;
        a.rq_psn = peer->qp_num & 0xffff;
        a.max_dest_rd_atomic = o->rd_atomic;
        a.min_rnr_timer = o->min_rnr_timer;
        a.ah_attr.is_global = 1;
        a.ah_attr.port_num = 1;
        a.ah_attr.grh.dgid = p->gid;
        a.ah_attr.grh.sgid_index = p->gid_index;
        a.ah_attr.grh.hop_limit = 1;
        *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                 IBV_QP_MIN_RNR_TIMER;
        break;
    case IBV_QPS_RTS:
        a.timeout = o->timeout;
        a.retry_cnt = o->retry_cnt;
        a.rnr_retry = o->rnr_retry;
        a.sq_psn = qp->qp_num & 0xffff;
        a.max_rd_atomic = o->rd_atomic;
        *mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        break;
    default:
        break;
    }
    return a;
}

void pair_walk(struct pair *p, struct ibv_qp *qp, struct ibv_qp *peer, enum ibv_qp_state to)
{
    static const enum ibv_qp_state path[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR};
    if (to == IBV_QPS_RESET)
        return;
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        int mask;
        struct ibv_qp_attr a = pair_attr(p, qp, peer, path[i], &mask);
        need(ibv_modify_qp(qp, &a, mask), state_name(path[i]));
        if (path[i] == to)
            return;
    }
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr a = {.qp_state = state};
    return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    need(ibv_query_qp(qp, &a, IBV_QP_STATE, &i), "ibv_query_qp");
    return a.qp_state;
}

enum ibv_qp_state wait_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    uint64_t until = now_ms() + 2000;
    while (state_of(qp) != state && now_ms() < until)
        pause_ms(2);
    return state_of(qp);
}

bool next_wc(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
    uint64_t until = now_ms() + (uint64_t)ms;
    for (;;) {
        int n = ibv_poll_cq(cq, 1, wc);
        if (n < 0)
            give_up("ibv_poll_cq", n);
        if (n == 1)
            return true;
        if (now_ms() >= until)
            return false;
        pause_ms(1);
    }
}

const char *outcome(struct ibv_cq *cq, uint64_t wr_id)
{
    struct ibv_wc wc;
    if (!next_wc(cq, &wc, WAIT_MS))
        return "no completion";
    return wc.wr_id == wr_id ? status_name(wc.status) : "completion of another request";
}

bool quiet(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    return !next_wc(cq, &wc, QUIET_MS);
}

const char *tally(struct ibv_cq *cq, uint64_t first, int n)
{
    static char text[160];
    struct ibv_wc wc = {0};
    enum ibv_wc_status last = IBV_WC_SUCCESS;
    int run = 0, at = 0;
    for (int i = 0; i < n; i++) {
        if (!next_wc(cq, &wc, WAIT_MS))
            return at += snprintf(text + at, sizeof text - (size_t)at, "%d completions missing", n - i), text;
        if (wc.wr_id != first + (uint64_t)i)
            return "out of order";
        if (run && wc.status != last) {
            at += snprintf(text + at, sizeof text - (size_t)at, "%d %s then ", run, status_name(last));
            run = 0;
        }
        last = wc.status;
        run++;
    }
    snprintf(text + at, sizeof text - (size_t)at, "%d %s", run, status_name(last));
    return text;
}

const char *async_event(struct ibv_context *ctx, int ms, void **element)
{
    struct pollfd f = {.fd = ctx->async_fd, .events = POLLIN};
    struct ibv_async_event e;
    if (poll(&f, 1, ms) != 1)
        return NULL;
    need(ibv_get_async_event(ctx, &e), "ibv_get_async_event");
    ibv_ack_async_event(&e);
    if (element)
        *element = e.element.qp;
    return event_name(e.event_type);
}

static uint8_t byte_at(uint8_t seed, size_t i)
{
    return (uint8_t)(seed + i * 7 + (i >> 8) * 13 + (i >> 16) * 31);
}

void fill(struct buffer *b, uint8_t seed)
{
    for (size_t i = 0; i < b->size; i++)
        b->p[i] = byte_at(seed, i);
}

bool filled(const uint8_t *p, size_t n, uint8_t seed, size_t from)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte_at(seed, from + i))
            return false;
    return true;
}

struct ibv_sge sge(const struct buffer *b, size_t at, uint32_t length)
{
    return (struct ibv_sge){.addr = (uintptr_t)b->p + at, .length = length, .lkey = b->mr->lkey};
}

int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad = NULL;
    wr.send_flags |= IBV_SEND_SIGNALED;
    int e = ibv_post_send(qp, &wr, &bad);
    if (e && bad != &wr)
        say("wrong bad_wr");
    return e;
}

int post_rdma(struct pair *p, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t length)
{
    struct ibv_sge s = sge(&p->buf[0], 0, length);
    return post(p->qp[0], (struct ibv_send_wr){.wr_id = wr_id,
                                               .sg_list = &s,
                                               .num_sge = 1,
                                               .opcode = op,
                                               .wr.rdma = {(uintptr_t)p->buf[1].p, p->buf[1].mr->rkey}});
}

int post_send(struct pair *p, uint64_t wr_id, uint32_t length)
{
    return post_rdma(p, IBV_WR_SEND, wr_id, length);
}

int post_recv(struct pair *p, int side, uint64_t wr_id, uint32_t length)
{
    struct ibv_sge s = sge(&p->buf[side], 0, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &s, .num_sge = 1}, *bad = NULL;
    int e = side == 1 && p->srq ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp[side], &wr, &bad);
    if (e && bad != &wr)
        say("wrong bad_wr");
    return e;
}
