/* The extended interfaces: ibv_create_qp_ex() with ibv_wr_*(), ibv_create_cq_ex(). */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "pair.h"

static struct pair extended(void)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    o.send_ops = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    o.cap.max_inline_data = 64;
    o.cap.max_send_wr = 16;
    pair_open(&p, &o);
    return p;
}

static struct ibv_qp_ex *begin(struct pair *p)
{
    struct ibv_qp_ex *x = need_ptr(ibv_qp_to_qp_ex(p->qp[0]), "ibv_qp_to_qp_ex");
    ibv_wr_start(x);
    return x;
}

static void add_read(struct ibv_qp_ex *x, struct pair *p, uint64_t wr_id, uint32_t length)
{
    x->wr_id = wr_id;
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_read(x, p->buf[1].mr->rkey, (uintptr_t)p->buf[1].p);
    ibv_wr_set_sge(x, p->buf[0].mr->lkey, (uintptr_t)p->buf[0].p, length);
}

static void batch(const void *arg)
{
    struct pair p = extended();
    (void)arg;
    fill(&p.buf[1], 1);
    struct ibv_sge in = sge(&p.buf[1], 30000, 100);
    struct ibv_recv_wr r = {.wr_id = 50, .sg_list = &in, .num_sge = 1}, *bad;
    need(ibv_post_recv(p.qp[1], &r, &bad), "ibv_post_recv");
    struct ibv_qp_ex *x = begin(&p);
    add_read(x, &p, 0, 5000);
    x->wr_id = 1;
    ibv_wr_rdma_write(x, p.buf[1].mr->rkey, (uintptr_t)p.buf[1].p + 10000);
    struct ibv_sge s[2] = {sge(&p.buf[0], 20000, 100), sge(&p.buf[0], 20100, 4900)};
    ibv_wr_set_sge_list(x, 2, s);
    x->wr_id = 2;
    ibv_wr_send_imm(x, htonl(77));
    ibv_wr_set_sge(x, p.buf[0].mr->lkey, (uintptr_t)p.buf[0].p + 20000, 10);
    say("%s", error_name(ibv_wr_complete(x)));
    say("%s", tally(p.cq[0], 0, 3));
    struct ibv_wc wc = {0};
    say("%s", next_wc(p.cq[1], &wc, WAIT_MS) && wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 77 ? "immediate"
                                                                                                             : "no immediate");
    say("%s", filled(p.buf[0].p, 5000, 1, 0) ? "exact" : "wrong data");
}

static void abort_batch(const void *arg)
{
    struct pair p = extended();
    (void)arg;
    struct ibv_qp_ex *x = begin(&p);
    for (uint64_t i = 0; i < 10; i++)
        add_read(x, &p, i, 100);
    ibv_wr_abort(x);
    say("%s", quiet(p.cq[0]) ? "nothing" : "completions");
    for (uint64_t i = 0; i < 16; i++) { /* the slots are free again */
        x = begin(&p);
        add_read(x, &p, i, 100);
        need(ibv_wr_complete(x), "ibv_wr_complete");
    }
    say("then %s", tally(p.cq[0], 0, 16));
}

static void inline_data(const void *arg)
{
    const bool *list = arg;
    struct pair p = extended();
    char text[32] = "extended inline", rest[32] = "inline";
    struct ibv_qp_ex *x = begin(&p);
    x->wr_id = 1;
    x->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ibv_wr_rdma_write(x, p.buf[1].mr->rkey, (uintptr_t)p.buf[1].p);
    struct ibv_data_buf b[2] = {{text, 9}, {rest, 7}};
    if (*list)
        ibv_wr_set_inline_data_list(x, 2, b);
    else
        ibv_wr_set_inline_data(x, text, 16);
    say("%s", error_name(ibv_wr_complete(x)));
    memset(text, 'x', sizeof text);
    memset(rest, 'x', sizeof rest);
    say("%s", outcome(p.cq[0], 1));
    say("%s", strcmp((char *)p.buf[1].p, "extended inline") ? "wrong data" : "exact");
}

static void atomic(const void *arg)
{
    struct pair p = extended();
    (void)arg;
    uint64_t *remote = (uint64_t *)(void *)p.buf[1].p;
    *remote = 40;
    struct ibv_qp_ex *x = begin(&p);
    x->wr_id = 1;
    x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(x, p.buf[1].mr->rkey, (uintptr_t)remote, 2);
    ibv_wr_set_sge(x, p.buf[0].mr->lkey, (uintptr_t)p.buf[0].p, 8);
    need(ibv_wr_complete(x), "ibv_wr_complete");
    say("%s", outcome(p.cq[0], 1));
    say("%s", *remote == 42 && *(uint64_t *)(void *)p.buf[0].p == 40 ? "right" : "wrong");
}

enum spoil { TOO_MANY_SGES, INLINE_TOO_LARGE, TOO_MANY_REQUESTS };

/* A batch with an error in it: ibv_wr_complete() says so, and nothing of the batch is done. */
static void all_or_nothing(const void *arg)
{
    const enum spoil *how = arg;
    static char large[1 << 16];
    struct ibv_sge s[64];
    struct pair p = extended();
    struct ibv_qp_ex *x = begin(&p);
    for (uint64_t i = 0; i < (*how == TOO_MANY_REQUESTS ? 2000 : 2); i++)
        add_read(x, &p, i, 100);
    for (int i = 0; i < 64; i++)
        s[i] = sge(&p.buf[0], 0, 8);
    if (*how != TOO_MANY_REQUESTS)
        ibv_wr_rdma_write(x, p.buf[1].mr->rkey, (uintptr_t)p.buf[1].p);
    if (*how == TOO_MANY_SGES)
        ibv_wr_set_sge_list(x, 64, s);
    if (*how == INLINE_TOO_LARGE) {
        x->wr_flags |= IBV_SEND_INLINE;
        ibv_wr_set_inline_data(x, large, sizeof large);
    }
    say("%s", error_name(ibv_wr_complete(x)));
    say("%s", quiet(p.cq[0]) ? "nothing done" : "part of it done");
    x = begin(&p);
    add_read(x, &p, 5000, 100);
    say("then %s", error_name(ibv_wr_complete(x)));
    say("%s", outcome(p.cq[0], 5000));
}

/* An extended queue pair takes ibv_post_send() too. */
static void classic(const void *arg)
{
    struct pair p = extended();
    (void)arg;
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 100), "ibv_post_send");
    say("%s", outcome(p.cq[0], 1));
}

static void unsupported_op(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_qp_init_attr_ex a = {.send_cq = p.cq[0],
                                    .recv_cq = p.cq[0],
                                    .cap = p.opt.cap,
                                    .qp_type = IBV_QPT_RC,
                                    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                    .pd = p.pd,
                                    .send_ops_flags = IBV_QP_EX_WITH_TSO};
    errno = 0;
    say("%s", error_name(ibv_create_qp_ex(p.ctx, &a) ? 0 : -1));
}

static void cq_ex(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    pair_open(&p, &o);
    struct ibv_cq_init_attr_ex ca = {.cqe = 64, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM};
    struct ibv_cq_ex *x = need_ptr(ibv_create_cq_ex(p.ctx, &ca), "ibv_create_cq_ex");
    p.cq[1] = ibv_cq_ex_to_cq(x);
    p.qp[1] = pair_qp(&p, 1);
    p.qp[0] = pair_qp(&p, 0);
    for (int i = 0; i < 2; i++)
        pair_walk(&p, p.qp[i], p.qp[!i], IBV_QPS_RTS);
    struct ibv_poll_cq_attr pa = {0};
    say("empty %s", error_name(ibv_start_poll(x, &pa)));
    for (uint64_t i = 0; i < 3; i++) {
        need(post_recv(&p, 1, 10 + i, 100), "ibv_post_recv");
        struct ibv_sge s = sge(&p.buf[0], 0, 20 + (uint32_t)i);
        need(post(p.qp[0], (struct ibv_send_wr){.wr_id = i, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
                                                .imm_data = htonl((uint32_t)i)}),
             "SEND");
    }
    say("%s", tally(p.cq[0], 0, 3));
    pause_ms(50);
    int e = ibv_start_poll(x, &pa), n = 0;
    for (; e == 0; e = ibv_next_poll(x), n++)
        if (x->wr_id != 10 + (uint64_t)n || x->status != IBV_WC_SUCCESS || ibv_wc_read_opcode(x) != IBV_WC_RECV ||
            ibv_wc_read_byte_len(x) != 20 + (uint32_t)n || ntohl(ibv_wc_read_imm_data(x)) != (uint32_t)n ||
            ibv_wc_read_qp_num(x) != p.qp[1]->qp_num)
            say("wrong fields of completion %d", n);
    if (n)
        ibv_end_poll(x);
    say("%d received, then %s", n, error_name(e));
}

static void cq_ex_unsupported(const void *arg)
{
    struct pair p = {0};
    struct ibv_device_attr_ex d;
    (void)arg;
    pair_device(&p);
    need(ibv_query_device_ex(p.ctx, NULL, &d), "ibv_query_device_ex");
    struct ibv_cq_init_attr_ex a = {.cqe = 64, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_cq_ex *x = ibv_create_cq_ex(p.ctx, &a);
    say("%s", !!x == !!d.completion_timestamp_mask ? "as the attributes say" : x ? "accepted, not offered" : error_name(-1));
}

#define SPOIL(x) &(const enum spoil){x}
#define WR "ibv_wr_post(3)"

const struct check extended_checks[] = {
    {"extended_batch", batch, "ok, 3 ok, immediate, exact", WR, NULL},
    {"extended_abort", abort_batch, "nothing, then 16 ok", WR, NULL},
    {"extended_inline", inline_data, "ok, ok, exact", WR, &(const bool){false}},
    {"extended_inline_list", inline_data, "ok, ok, exact", WR, &(const bool){true}},
    {"extended_atomic", atomic, "ok, right", WR, NULL},
    {"extended_too_many_sges", all_or_nothing, "EINVAL, nothing done, then ok, ok", WR ": all or nothing", SPOIL(TOO_MANY_SGES)},
    {"extended_inline_too_large", all_or_nothing, "EINVAL, nothing done, then ok, ok | ENOMEM, nothing done, then ok, ok",
     WR ": all or nothing", SPOIL(INLINE_TOO_LARGE)},
    {"extended_sq_full", all_or_nothing, "ENOMEM, nothing done, then ok, ok", WR ": all or nothing", SPOIL(TOO_MANY_REQUESTS)},
    {"extended_classic_post", classic, "ok", "ibv_create_qp_ex(3)", NULL},
    {"extended_unsupported_op", unsupported_op, "EOPNOTSUPP | EINVAL", "ibv_create_qp_ex(3)", NULL},
    {"extended_cq", cq_ex, "empty ENOENT, 3 ok, 3 received, then ENOENT", "ibv_create_cq_ex(3)", NULL},
    {"extended_cq_timestamps", cq_ex_unsupported, "as the attributes say", "ibv_create_cq_ex(3), ibv_query_device_ex(3)", NULL},
    {0},
};
