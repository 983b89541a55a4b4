/* How work fails: each status as the InfiniBand specification demands it, on the side it belongs to, and what becomes
 * of the queue pairs. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"

static const enum ibv_wr_opcode READ = IBV_WR_RDMA_READ, WRITE = IBV_WR_RDMA_WRITE;

struct access_case {
    const char *name;
    enum ibv_wr_opcode op;
    unsigned int local_access, remote_access, qp_access;
    int bad_rkey, bad_lkey;      /* added to the key */
    int64_t remote_off;          /* of 64 bytes, in a region of 4096 */
    int64_t local_off;
    enum ibv_wc_status status;
    enum ibv_qp_state peer;
};

static const struct access_case access_cases[] = {
    {"wrong rkey", IBV_WR_RDMA_READ, RIG_ALL, RIG_ALL, RIG_ALL, 1, 0, 0, 0, IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR},
    {"past the end", IBV_WR_RDMA_READ, RIG_ALL, RIG_ALL, RIG_ALL, 0, 0, 4033, 0, IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR},
    {"before the start", IBV_WR_RDMA_WRITE, RIG_ALL, RIG_ALL, RIG_ALL, 0, 0, -1, 0, IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR},
    {"address wraps", IBV_WR_RDMA_READ, RIG_ALL, RIG_ALL, RIG_ALL, 0, 0, INT64_MAX, 0, IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR},
    {"no REMOTE_READ on the MR", IBV_WR_RDMA_READ, RIG_ALL, IBV_ACCESS_LOCAL_WRITE, RIG_ALL, 0, 0, 0, 0,
     IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR},
    {"no REMOTE_WRITE on the MR", IBV_WR_RDMA_WRITE, RIG_ALL, IBV_ACCESS_REMOTE_READ, RIG_ALL, 0, 0, 0, 0,
     IBV_WC_REM_ACCESS_ERR, IBV_QPS_ERR},
    {"no REMOTE_READ on the QP", IBV_WR_RDMA_READ, RIG_ALL, RIG_ALL, IBV_ACCESS_REMOTE_WRITE, 0, 0, 0, 0,
     IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR},
    {"no REMOTE_WRITE on the QP", IBV_WR_RDMA_WRITE, RIG_ALL, RIG_ALL, IBV_ACCESS_REMOTE_READ, 0, 0, 0, 0,
     IBV_WC_REM_INV_REQ_ERR, IBV_QPS_ERR},
    {"wrong lkey, read", IBV_WR_RDMA_READ, RIG_ALL, RIG_ALL, RIG_ALL, 0, 1, 0, 0, IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS},
    {"wrong lkey, write", IBV_WR_RDMA_WRITE, RIG_ALL, RIG_ALL, RIG_ALL, 0, 1, 0, 0, IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS},
    {"local range", IBV_WR_RDMA_READ, RIG_ALL, RIG_ALL, RIG_ALL, 0, 0, 0, 4090, IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS},
    {"no LOCAL_WRITE for a READ", IBV_WR_RDMA_READ, 0, RIG_ALL, RIG_ALL, 0, 0, 0, 0, IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS},
};

static void run_case(const struct access_case *c)
{
    struct rig_options o = {.access = {RIG_ALL, c->qp_access}};
    struct rig r;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, c->local_access), b = rig_buffer(&r, 4096, c->remote_access);
    assert_int_equal(post_recv(r.qp[0], 30, NULL, 0, 0), 0);
    assert_int_equal(post_recv(r.qp[1], 31, NULL, 0, 0), 0);
    assert_int_equal(post_rdma(r.qp[0], c->op, 1, a.p + c->local_off, 64, a.mr->lkey + (uint32_t)c->bad_lkey,
                               (void *)((uintptr_t)b.p + (uint64_t)c->remote_off), b.mr->rkey + (uint32_t)c->bad_rkey),
                     0);
    rig_expect(r.cq[0], 1, c->status);
    rig_expect(r.cq[0], 30, IBV_WC_WR_FLUSH_ERR);
    rig_wait_state(r.qp[0], IBV_QPS_ERR);
    rig_wait_state(r.qp[1], c->peer);
    if (c->peer == IBV_QPS_ERR)
        rig_expect(r.cq[1], 31, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(post_rdma(r.qp[0], c->op, 2, a.p, 8, a.mr->lkey, b.p, b.mr->rkey), 0); /* accepted, flushed */
    rig_expect(r.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void access_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof access_cases / sizeof *access_cases; i++) {
        print_message("    %s\n", access_cases[i].name);
        run_case(&access_cases[i]);
    }
}

/* The work before the failure completes, the work behind it is flushed, in order. */
static void fail_in_the_middle(uint32_t n)
{
    struct rig r;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 1 << 20, RIG_ALL), b = rig_buffer(&r, 1 << 20, RIG_ALL);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(post_rdma(r.qp[0], i % 2 ? WRITE : READ, i, a.p, n, a.mr->lkey, b.p,
                                   b.mr->rkey + (i == 4 ? 1 : 0)),
                         0);
    for (uint64_t i = 0; i < 8; i++)
        rig_expect(r.cq[0], i, i < 4 ? IBV_WC_SUCCESS : i == 4 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);

    rig_open(&r, NULL); /* a local error behind READs in flight */
    a = rig_buffer(&r, 1 << 20, RIG_ALL), b = rig_buffer(&r, 1 << 20, RIG_ALL);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(post_rdma(r.qp[0], i == 3 ? WRITE : READ, i, a.p, n, a.mr->lkey + (i == 3 ? 1 : 0), b.p,
                                   b.mr->rkey),
                         0);
    for (uint64_t i = 0; i < 6; i++)
        rig_expect(r.cq[0], i, i < 3 ? IBV_WC_SUCCESS : i == 3 ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void failure_in_the_middle(void **state)
{
    (void)state;
    fail_in_the_middle(64);
    fail_in_the_middle(1 << 18);
}

static void receive_too_short(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    assert_int_equal(post_recv(r.qp[1], 5, b.p, 99, b.mr->lkey), 0);
    assert_int_equal(post_recv(r.qp[1], 6, b.p, 99, b.mr->lkey), 0);
    assert_int_equal(post_send(r.qp[0], 1, a.p, 100, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    rig_expect(r.cq[0], 1, IBV_WC_REM_INV_REQ_ERR);
    rig_expect(r.cq[1], 5, IBV_WC_LOC_LEN_ERR);
    rig_expect(r.cq[1], 6, IBV_WC_WR_FLUSH_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void receive_buffer_wrong(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, 0); /* not writable */
    assert_int_equal(post_recv(r.qp[1], 5, b.p, 4096, b.mr->lkey), 0);
    assert_int_equal(post_send(r.qp[0], 1, a.p, 100, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    rig_expect(r.cq[0], 1, IBV_WC_REM_OP_ERR);
    rig_expect(r.cq[1], 5, IBV_WC_LOC_PROT_ERR);
    rig_wait_state(r.qp[1], IBV_QPS_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void receiver_not_ready(void **state)
{
    struct rig_options o = {.rnr_retry = 2, .min_rnr_timer = 12};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    assert_int_equal(post_send(r.qp[0], 1, a.p, 8, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    assert_int_equal(post_send(r.qp[0], 2, a.p, 8, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    rig_expect(r.cq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
    rig_expect(r.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(rig_state(r.qp[1]), IBV_QPS_RTS); /* the receiver did nothing wrong */
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);

    o.rnr_retry = 7; /* for ever: a receive that comes late is found, and the order holds */
    rig_open(&r, &o);
    a = rig_buffer(&r, 1 << 20, RIG_ALL), b = rig_buffer(&r, 1 << 20, RIG_ALL);
    fill(&a, 2);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(post_send(r.qp[0], i, a.p + i * 200000, 200000, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    for (uint64_t i = 0; i < 4; i++) {
        usleep(20000);
        assert_int_equal(post_recv(r.qp[1], 10 + i, b.p + i * 200000, 200000, b.mr->lkey), 0);
    }
    for (uint64_t i = 0; i < 4; i++) {
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        rig_expect(r.cq[1], 10 + i, IBV_WC_SUCCESS);
    }
    assert_true(filled(b.p, 800000, 2, 0));
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void peer_gone(void **state)
{
    struct rig_options o = {.timeout = 10, .retry_cnt = 2};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    assert_int_equal(ibv_destroy_qp(r.qp[1]), 0);
    r.qp[1] = NULL;
    assert_int_equal(post_rdma(r.qp[0], READ, 1, a.p, 8, a.mr->lkey, b.p, b.mr->rkey), 0);
    assert_int_equal(post_rdma(r.qp[0], READ, 2, a.p, 8, a.mr->lkey, b.p, b.mr->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
    rig_expect(r.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

/* A peer that is not there yet is one that retries find. */
static void peer_late(void **state)
{
    struct rig_options o = {.connect_nothing = true, .timeout = 14, .retry_cnt = 7};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    fill(&b, 1);
    rig_connect(&r, r.qp[0], r.qp[1], 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(post_rdma(r.qp[0], READ, i, a.p, 64, a.mr->lkey, b.p, b.mr->rkey), 0);
    usleep(30000);
    rig_connect(&r, r.qp[1], r.qp[0], 0);
    for (uint64_t i = 0; i < 5; i++)
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
    assert_true(filled(a.p, 64, 1, 0));
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void no_read_depth(void **state)
{
    struct rig r;
    struct rig_options o = {.connect_nothing = true};
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL);
    r.opt.rd_atomic = 0;
    rig_connect(&r, r.qp[0], r.qp[1], 0); /* may send none */
    r.opt.rd_atomic = 4;
    rig_connect(&r, r.qp[1], r.qp[0], 0); /* may send, but qp[0] answers none */
    assert_int_equal(post_rdma(r.qp[1], READ, 2, a.p, 8, a.mr->lkey, a.p + 64, a.mr->rkey), 0);
    rig_expect(r.cq[1], 2, IBV_WC_REM_INV_REQ_ERR);
    rig_free(&a);
    rig_close(&r);
    rig_open(&r, &o);
    a = rig_buffer(&r, 4096, RIG_ALL);
    r.opt.rd_atomic = 0;
    rig_connect(&r, r.qp[0], r.qp[1], 0);
    rig_connect(&r, r.qp[1], r.qp[0], 0);
    assert_int_equal(post_rdma(r.qp[0], READ, 1, a.p, 8, a.mr->lkey, a.p + 64, a.mr->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_LOC_QP_OP_ERR);
    rig_free(&a);
    rig_close(&r);
}

/* 12 READs at once to a peer that answers 4: four answers, then the refusal, then flushes. */
static void too_many_reads(void **state)
{
    enum { N = 12, ANSWERS = 4 };
    struct rig_options o = {.connect_nothing = true};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    rig_connect(&r, r.qp[0], r.qp[1], 0); /* 16 */
    r.opt.rd_atomic = ANSWERS;
    rig_connect(&r, r.qp[1], r.qp[0], 0);
    for (uint64_t i = 0; i < 2 * ANSWERS; i++) { /* one at a time is no trouble */
        assert_int_equal(post_rdma(r.qp[0], READ, i, a.p, 8, a.mr->lkey, b.p, b.mr->rkey), 0);
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
    }
    struct ibv_sge s = {(uintptr_t)a.p, 64, a.mr->lkey};
    struct ibv_send_wr wr[N], *bad;
    for (int i = 0; i < N; i++)
        wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i, .next = i + 1 < N ? &wr[i + 1] : NULL, .sg_list = &s, .num_sge = 1,
                                     .opcode = READ, .send_flags = IBV_SEND_SIGNALED,
                                     .wr.rdma = {(uintptr_t)b.p, b.mr->rkey}};
    assert_int_equal(ibv_post_send(r.qp[0], wr, &bad), 0);
    for (uint64_t i = 0; i < N; i++)
        rig_expect(r.cq[0], i, i < ANSWERS ? IBV_WC_SUCCESS : i == ANSWERS ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_WR_FLUSH_ERR);
    rig_wait_state(r.qp[1], IBV_QPS_ERR);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void atomic_errors(void **state)
{
    static const struct {
        uint64_t offset;
        unsigned int access;
        enum ibv_wc_status status;
    } c[] = {{4, RIG_ALL, IBV_WC_REM_INV_REQ_ERR},
             {0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WC_REM_ACCESS_ERR},
             {4096, RIG_ALL, IBV_WC_REM_ACCESS_ERR}};
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct rig r;
        rig_open(&r, NULL);
        struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, c[i].access);
        struct ibv_sge s = {(uintptr_t)a.p, 8, a.mr->lkey};
        assert_int_equal(post(r.qp[0], (struct ibv_send_wr){.wr_id = 1, .sg_list = &s, .num_sge = 1,
                                                            .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                            .wr.atomic = {.remote_addr = (uintptr_t)b.p + c[i].offset,
                                                                          .rkey = b.mr->rkey}}),
                         0);
        rig_expect(r.cq[0], 1, c[i].status);
        rig_free(&a);
        rig_free(&b);
        rig_close(&r);
    }
}

static void cq_overrun(void **state)
{
    struct rig_options o = {.cqe = 4};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL);
    for (uint64_t i = 0; i < 12; i++)
        assert_int_equal(post_rdma(r.qp[0], WRITE, i, a.p, 8, a.mr->lkey, a.p + 64, a.mr->rkey), 0);
    struct pollfd p = {.fd = r.ctx->async_fd, .events = POLLIN};
    struct ibv_async_event ev;
    bool cq_error = false;
    while (!cq_error && poll(&p, 1, RIG_DEADLINE_MS) == 1) {
        assert_int_equal(ibv_get_async_event(r.ctx, &ev), 0);
        cq_error = ev.event_type == IBV_EVENT_CQ_ERR && ev.element.cq == r.cq[0];
        ibv_ack_async_event(&ev);
    }
    assert_true(cq_error);
    rig_wait_state(r.qp[0], IBV_QPS_ERR);
    rig_free(&a);
    rig_close(&r);
}

/* After ibv_dereg_mr() has returned nobody touches the memory: it is unmapped at once, with READs into it in flight. */
static void deregistered_in_flight(void **state)
{
    enum { SIZE = 8 << 20, DEPTH = 8 };
    (void)state;
    for (int side = 0; side < 2; side++)
        for (int round = 0; round < 8; round++) {
            const enum ibv_wr_opcode op = round % 2 ? READ : WRITE;
            struct rig_options o = {.timeout = 14, .retry_cnt = 6};
            struct rig r;
            rig_open(&r, &o);
            struct buffer fixed = rig_buffer(&r, SIZE, RIG_ALL);
            uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            struct ibv_mr *mr = ibv_reg_mr(r.pd, p, SIZE, RIG_ALL);
            assert_non_null(mr);
            for (uint64_t i = 0; i < DEPTH; i++)
                assert_int_equal(side ? post_rdma(r.qp[0], op, i, fixed.p, SIZE, fixed.mr->lkey, p, mr->rkey)
                                      : post_rdma(r.qp[0], op, i, p, SIZE, mr->lkey, fixed.p, fixed.mr->rkey),
                                 0);
            usleep((useconds_t)(rand() % 3000));
            assert_int_equal(ibv_dereg_mr(mr), 0);
            memset(p, 0x5a, SIZE); /* the program's own again */
            bool failed = false;
            for (uint64_t i = 0; i < DEPTH; i++) {
                struct ibv_wc wc = rig_wait(r.cq[0]);
                enum ibv_wc_status first = side ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;
                if (failed)
                    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
                else if (wc.status != IBV_WC_SUCCESS)
                    assert_int_equal(wc.status, first);
                failed = wc.status != IBV_WC_SUCCESS;
            }
            assert_true(p[0] == 0x5a && memcmp(p, p + 1, SIZE - 1) == 0);
            munmap(p, SIZE);
            rig_free(&fixed);
            rig_close(&r);
        }
}

static void destroyed_with_work(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct rig r;
        rig_open(&r, NULL);
        struct buffer a = rig_buffer(&r, 4 << 20, RIG_ALL), b = rig_buffer(&r, 4 << 20, RIG_ALL);
        for (uint64_t i = 0; i < 16; i++)
            assert_int_equal(post_rdma(r.qp[i % 2], i % 3 ? READ : WRITE, i, a.p, 4 << 20, a.mr->lkey, b.p, b.mr->rkey), 0);
        usleep((useconds_t)(rand() % 2000));
        int first = round % 2;
        assert_int_equal(ibv_destroy_qp(r.qp[first]), 0);
        r.qp[first] = NULL;
        assert_true(rig_quiet(r.cq[first], 1)); /* its completions went with it */
        rig_free(&a);
        rig_free(&b);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_errors),
        cmocka_unit_test(failure_in_the_middle),
        cmocka_unit_test(receive_too_short),
        cmocka_unit_test(receive_buffer_wrong),
        cmocka_unit_test(receiver_not_ready),
        cmocka_unit_test(peer_gone),
        cmocka_unit_test(peer_late),
        cmocka_unit_test(no_read_depth),
        cmocka_unit_test(too_many_reads),
        cmocka_unit_test(atomic_errors),
        cmocka_unit_test(cq_overrun),
        cmocka_unit_test(deregistered_in_flight),
        cmocka_unit_test(destroyed_with_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
