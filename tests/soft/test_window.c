/* Memory windows and invalidation: what a window opens, to whom, until when. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { SIZE = 65536, AT = 4096, LENGTH = 8192 };

static const enum ibv_wr_opcode READ = IBV_WR_RDMA_READ, WRITE = IBV_WR_RDMA_WRITE;

/* a reads from b, which grants nothing but binding windows. */
struct ends {
    struct rig r;
    struct buffer a, b;
    struct ibv_mw *mw;
};

static void open_ends(struct ends *e, enum ibv_mw_type type, bool extended)
{
    struct rig_options o = {.extended = extended};
    rig_open(&e->r, &o);
    e->a = rig_buffer(&e->r, SIZE, RIG_ALL);
    e->b = rig_buffer(&e->r, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    fill(&e->b, 1);
    e->mw = ibv_alloc_mw(e->r.pd, type);
    assert_non_null(e->mw);
    assert_int_equal(e->mw->type, type);
}

static void close_ends(struct ends *e)
{
    if (e->mw)
        assert_int_equal(ibv_dealloc_mw(e->mw), 0);
    rig_free(&e->a);
    rig_free(&e->b);
    rig_close(&e->r);
}

static struct ibv_mw_bind_info range(struct ends *e, size_t at, size_t length, unsigned int access)
{
    return (struct ibv_mw_bind_info){
        .mr = e->b.mr, .addr = (uintptr_t)e->b.p + at, .length = length, .mw_access_flags = access};
}

static enum ibv_wc_status bind_2(struct ends *e, uint32_t rkey, struct ibv_mw_bind_info info)
{
    assert_int_equal(post(e->r.qp[1], (struct ibv_send_wr){.wr_id = 5,
                                                           .opcode = IBV_WR_BIND_MW,
                                                           .send_flags = IBV_SEND_SIGNALED,
                                                           .bind_mw = {.mw = e->mw, .rkey = rkey, .bind_info = info}}),
                     0);
    struct ibv_wc wc = rig_wait(e->r.cq[1]);
    assert_int_equal(wc.wr_id, 5);
    assert_true(wc.status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_BIND_MW);
    return wc.status;
}

static enum ibv_wc_status bind_1(struct ends *e, struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind b = {.wr_id = 6, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    assert_int_equal(ibv_bind_mw(e->r.qp[1], e->mw, &b), 0);
    struct ibv_wc wc = rig_wait(e->r.cq[1]);
    assert_int_equal(wc.wr_id, 6);
    return wc.status;
}

static void transfer(struct ends *e, enum ibv_wr_opcode op, uint64_t at, uint32_t n, uint32_t rkey, enum ibv_wc_status status)
{
    assert_int_equal(post_rdma(e->r.qp[0], op, 1, e->a.p, n, e->a.mr->lkey, (void *)(uintptr_t)at, rkey), 0);
    rig_expect(e->r.cq[0], 1, status);
    if (op == READ && status == IBV_WC_SUCCESS)
        assert_true(filled(e->a.p, n, 1, (size_t)(at - (uintptr_t)e->b.p)));
}

static uint64_t remote(struct ends *e, size_t at)
{
    return (uintptr_t)e->b.p + at;
}

static void attributes_tell(void **state)
{
    struct rig r;
    struct ibv_device_attr_ex ex;
    const unsigned int flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    (void)state;
    rig_open(&r, NULL);
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &ex), 0);
    assert_int_equal(ex.orig_attr.device_cap_flags & flags, flags);
    assert_true(ex.orig_attr.max_mw > 0);
    assert_int_equal(ex.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0);
    rig_close(&r);
}

/* What a case does after binding [AT, AT+LENGTH) for reading. */
struct use {
    enum ibv_wr_opcode op;
    size_t at;
    uint32_t length;
    enum ibv_wc_status status;
};

static void bounds_and_access(void **state)
{
    static const struct use uses[] = {
        {IBV_WR_RDMA_READ, AT, LENGTH, IBV_WC_SUCCESS},
        {IBV_WR_RDMA_READ, AT + 1000, 100, IBV_WC_SUCCESS},
        {IBV_WR_RDMA_READ, AT - 1, 100, IBV_WC_REM_ACCESS_ERR},
        {IBV_WR_RDMA_READ, AT + LENGTH - 99, 100, IBV_WC_REM_ACCESS_ERR},
        {IBV_WR_RDMA_READ, 0, 8, IBV_WC_REM_ACCESS_ERR},
        {IBV_WR_RDMA_WRITE, AT, 8, IBV_WC_REM_ACCESS_ERR},
    };
    (void)state;
    for (int type = 1; type <= 2; type++)
        for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
            struct ends e;
            open_ends(&e, (enum ibv_mw_type)type, false);
            struct ibv_mw_bind_info info = range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ);
            uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
            assert_int_equal(type == 1 ? bind_1(&e, info) : bind_2(&e, rkey, info), IBV_WC_SUCCESS);
            if (type == 1)
                rkey = e.mw->rkey;
            transfer(&e, uses[i].op, remote(&e, uses[i].at), uses[i].length, rkey, uses[i].status);
            close_ends(&e);
        }
}

/* Each bind of type 1 gives a key of its own and ends the one before. */
static void type_1_rebound(void **state)
{
    struct ends e;
    (void)state;
    open_ends(&e, IBV_MW_TYPE_1, false);
    assert_int_equal(bind_1(&e, range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
    uint32_t first = e.mw->rkey;
    transfer(&e, READ, remote(&e, AT), 64, first, IBV_WC_SUCCESS);
    assert_int_equal(bind_1(&e, range(&e, 0, AT, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)), IBV_WC_SUCCESS);
    assert_int_not_equal(e.mw->rkey, first);
    transfer(&e, READ, remote(&e, 0), 64, e.mw->rkey, IBV_WC_SUCCESS);
    transfer(&e, WRITE, remote(&e, 0), 64, e.mw->rkey, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(e.b.mr), EINVAL);
    assert_int_equal(bind_1(&e, range(&e, 0, 0, 0)), IBV_WC_SUCCESS); /* bound to nothing */
    struct ibv_mr *mr = e.b.mr;
    e.b.mr = NULL;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    transfer(&e, READ, remote(&e, 0), 64, e.mw->rkey, IBV_WC_REM_ACCESS_ERR);
    close_ends(&e);
}

static void type_2_life(void **state)
{
    struct ends e;
    (void)state;
    open_ends(&e, IBV_MW_TYPE_2, false);
    for (int i = 0; i < 300; i++) { /* more often than there are keys */
        uint32_t rkey = e.mw->rkey = ibv_inc_rkey(e.mw->rkey);
        assert_int_equal(bind_2(&e, rkey, range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
        transfer(&e, READ, remote(&e, AT + 1), 300, rkey, IBV_WC_SUCCESS);
        assert_int_equal(ibv_dereg_mr(e.b.mr), EINVAL);
        assert_int_equal(post(e.r.qp[1], (struct ibv_send_wr){.wr_id = 7, .opcode = IBV_WR_LOCAL_INV,
                                                              .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey}),
                         0);
        struct ibv_wc wc = rig_wait(e.r.cq[1]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    }
    transfer(&e, READ, remote(&e, AT), 64, e.mw->rkey, IBV_WC_REM_ACCESS_ERR);
    close_ends(&e);
}

/* Deallocating the window ends its key at once, and gives the region free. */
static void deallocated(void **state)
{
    struct ends e;
    (void)state;
    open_ends(&e, IBV_MW_TYPE_2, false);
    uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
    assert_int_equal(bind_2(&e, rkey, range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
    transfer(&e, READ, remote(&e, AT), 64, rkey, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(e.mw), 0);
    e.mw = NULL;
    transfer(&e, READ, remote(&e, AT), 64, rkey, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(e.b.mr), 0);
    e.b.mr = NULL;
    close_ends(&e);
}

static struct ibv_qp *another_pair(struct ends *e, struct ibv_qp **peer)
{
    struct ibv_qp_init_attr a = {.send_cq = e->r.cq[0], .recv_cq = e->r.cq[0], .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
    struct ibv_qp *mine = ibv_create_qp(e->r.pd, &a);
    *peer = ibv_create_qp(e->r.pd, &a);
    rig_connect(&e->r, mine, *peer, RIG_ALL);
    rig_connect(&e->r, *peer, mine, RIG_ALL);
    return mine;
}

/* Type 1 serves the PD, type 2 one queue pair; and it dies with that. */
static void other_queue_pair(void **state)
{
    (void)state;
    for (int type = 1; type <= 2; type++) {
        struct ends e;
        struct ibv_qp *peer, *other;
        open_ends(&e, (enum ibv_mw_type)type, false);
        struct ibv_mw_bind_info info = range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ);
        uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
        assert_int_equal(type == 1 ? bind_1(&e, info) : bind_2(&e, rkey, info), IBV_WC_SUCCESS);
        other = another_pair(&e, &peer);
        assert_int_equal(post_rdma(other, READ, 9, e.a.p, 64, e.a.mr->lkey, e.b.p + AT, rkey), 0);
        rig_expect(e.r.cq[0], 9, type == 1 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(ibv_destroy_qp(other), 0);
        assert_int_equal(ibv_destroy_qp(peer), 0);
        if (type == 2) {
            assert_int_equal(ibv_destroy_qp(e.r.qp[1]), 0);
            e.r.qp[1] = NULL;
            assert_int_equal(ibv_dereg_mr(e.b.mr), 0);
            e.b.mr = NULL;
        }
        close_ends(&e);
    }
}

struct refusal {
    const char *name;
    enum ibv_mw_type type;
    unsigned int mr_access, mw_access;
    size_t at, length;
    bool twice;
};

static void bind_refused(void **state)
{
    enum { B = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, R = IBV_ACCESS_REMOTE_READ };
    static const struct refusal c[] = {
        {"region without MW_BIND", IBV_MW_TYPE_2, IBV_ACCESS_LOCAL_WRITE, R, AT, LENGTH, false},
        {"past the end", IBV_MW_TYPE_2, B, R, SIZE - 10, 11, false},
        {"before the start", IBV_MW_TYPE_1, B, R, (size_t)-1, 10, false},
        {"write on a region that is read only", IBV_MW_TYPE_2, IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_WRITE, AT, LENGTH, false},
        {"type 2 to nothing", IBV_MW_TYPE_2, B, R, AT, 0, false},
        {"type 2 while it is bound", IBV_MW_TYPE_2, B, R, AT, LENGTH, true},
        {"type 1 zero based", IBV_MW_TYPE_1, B, R | IBV_ACCESS_ZERO_BASED, AT, LENGTH, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct ends e;
        print_message("    %s\n", c[i].name);
        open_ends(&e, c[i].type, false);
        assert_int_equal(ibv_dereg_mr(e.b.mr), 0);
        e.b.mr = ibv_reg_mr(e.r.pd, e.b.p, SIZE, c[i].mr_access);
        struct ibv_mw_bind_info info = range(&e, c[i].at, c[i].length, c[i].mw_access);
        uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
        if (c[i].twice)
            assert_int_equal(bind_2(&e, rkey, info), IBV_WC_SUCCESS);
        assert_int_equal(c[i].type == IBV_MW_TYPE_1 ? bind_1(&e, info) : bind_2(&e, ibv_inc_rkey(rkey), info),
                         IBV_WC_MW_BIND_ERR);
        rig_wait_state(e.r.qp[1], IBV_QPS_ERR);
        close_ends(&e);
    }
}

/* A window is not an lkey, and its key belongs to no other type of post. */
static void misused(void **state)
{
    struct ends e;
    (void)state;
    open_ends(&e, IBV_MW_TYPE_1, false);
    assert_int_equal(bind_1(&e, range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = e.mw, .rkey = e.mw->rkey}};
    assert_int_equal(post(e.r.qp[1], wr), EINVAL); /* type 1 by ibv_bind_mw only */
    assert_int_equal(post_rdma(e.r.qp[1], WRITE, 2, e.b.p + AT, 8, e.mw->rkey, e.a.p, e.a.mr->rkey), 0);
    rig_expect(e.r.cq[1], 2, IBV_WC_LOC_PROT_ERR);
    close_ends(&e);
    open_ends(&e, IBV_MW_TYPE_2, false);
    struct ibv_mw_bind b = {.bind_info = range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ)};
    assert_int_equal(ibv_bind_mw(e.r.qp[1], e.mw, &b), EINVAL);
    wr = (struct ibv_send_wr){.wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = e.a.mr->rkey};
    assert_int_equal(post(e.r.qp[1], wr), 0);
    rig_expect(e.r.cq[1], 3, IBV_WC_LOC_QP_OP_ERR);
    close_ends(&e);
}

/* Posted behind READs on the same queue pair: the window opens and closes in its turn. */
static void in_order(void **state)
{
    struct ends e;
    (void)state;
    open_ends(&e, IBV_MW_TYPE_2, false);
    struct ibv_qp *q = e.r.qp[1];
    uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(post_rdma(q, READ, i, e.b.p, SIZE, e.b.mr->lkey, e.a.p, e.a.mr->rkey), 0);
    assert_int_equal(post(q, (struct ibv_send_wr){.wr_id = 4, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
                                                  .bind_mw = {e.mw, rkey, range(&e, 0, SIZE, IBV_ACCESS_REMOTE_READ)}}), 0);
    assert_int_equal(post_rdma(q, WRITE, 5, e.b.p, SIZE, e.b.mr->lkey, e.a.p, e.a.mr->rkey), 0);
    assert_int_equal(post(q, (struct ibv_send_wr){.wr_id = 6, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
                                                  .invalidate_rkey = rkey}), 0);
    assert_int_equal(post_rdma(q, READ, 7, e.b.p, 64, e.b.mr->lkey, e.a.p, e.a.mr->rkey), 0);
    for (uint64_t i = 0; i < 8; i++)
        rig_expect(e.r.cq[1], i, IBV_WC_SUCCESS);
    transfer(&e, READ, remote(&e, 0), 64, rkey, IBV_WC_REM_ACCESS_ERR);
    close_ends(&e);
}

static void send_with_inv(void **state)
{
    (void)state;
    for (int good = 0; good < 2; good++) {
        struct ends e;
        open_ends(&e, IBV_MW_TYPE_2, false);
        uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
        assert_int_equal(bind_2(&e, rkey, range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
        assert_int_equal(post_recv(e.r.qp[1], 8, e.b.p, 100, e.b.mr->lkey), 0);
        struct ibv_sge s = {(uintptr_t)e.a.p, 50, e.a.mr->lkey};
        struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV,
                                 .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = good ? rkey : rkey + 1};
        assert_int_equal(post(e.r.qp[0], wr), 0);
        rig_expect(e.r.cq[0], 1, good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
        struct ibv_wc wc = rig_wait(e.r.cq[1]);
        assert_int_equal(wc.wr_id, 8);
        if (good) {
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
            assert_int_equal(wc.invalidated_rkey, rkey);
            assert_int_equal(wc.byte_len, 50);
            transfer(&e, READ, remote(&e, AT), 64, rkey, IBV_WC_REM_ACCESS_ERR);
        } else {
            assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
            rig_wait_state(e.r.qp[1], IBV_QPS_ERR);
        }
        close_ends(&e);
    }
}

/* The same by ibv_wr_*; zero based, so that the window starts at address 0. */
static void extended(void **state)
{
    struct ends e;
    (void)state;
    open_ends(&e, IBV_MW_TYPE_2, true);
    struct ibv_qp_ex *x = ibv_qp_to_qp_ex(e.r.qp[1]);
    assert_non_null(x);
    struct ibv_mw_bind_info info = range(&e, AT, LENGTH, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
    uint32_t rkey = ibv_inc_rkey(e.mw->rkey);
    ibv_wr_start(x);
    x->wr_id = 20, x->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(x, e.mw, rkey, &info);
    assert_int_equal(ibv_wr_complete(x), 0);
    rig_expect(e.r.cq[1], 20, IBV_WC_SUCCESS);
    assert_int_equal(post_rdma(e.r.qp[0], READ, 1, e.a.p, 64, e.a.mr->lkey, (void *)100, rkey), 0);
    rig_expect(e.r.cq[0], 1, IBV_WC_SUCCESS);
    assert_true(filled(e.a.p, 64, 1, AT + 100));
    ibv_wr_start(x);
    x->wr_id = 21;
    ibv_wr_local_inv(x, rkey);
    assert_int_equal(ibv_wr_complete(x), 0);
    rig_expect(e.r.cq[1], 21, IBV_WC_SUCCESS);
    assert_int_equal(post_rdma(e.r.qp[0], READ, 2, e.a.p, 64, e.a.mr->lkey, (void *)100, rkey), 0);
    rig_expect(e.r.cq[0], 2, IBV_WC_REM_ACCESS_ERR);
    close_ends(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_tell), cmocka_unit_test(bounds_and_access), cmocka_unit_test(type_1_rebound),
        cmocka_unit_test(type_2_life),     cmocka_unit_test(deallocated),       cmocka_unit_test(other_queue_pair),
        cmocka_unit_test(bind_refused),    cmocka_unit_test(misused),           cmocka_unit_test(in_order),
        cmocka_unit_test(send_with_inv),   cmocka_unit_test(extended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
