/* What the InfiniBand specification says about RC queue pairs, asked through plain libibverbs: data, order, limits,
 * states. The errors are in test_errors.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rig.h"

static void attributes(void **state)
{
    struct rig r;
    struct ibv_device_attr d;
    struct ibv_port_attr p;
    union ibv_gid gid;
    struct ibv_device_attr_ex x;
    (void)state;
    rig_open(&r, NULL);
    assert_int_equal(ibv_query_device(r.ctx, &d), 0);
    assert_true(d.max_qp >= 1024 && d.max_qp_rd_atom >= 16 && d.max_sge >= 4);
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &x), 0);
    assert_int_equal(x.orig_attr.max_qp, d.max_qp);
    assert_int_equal(ibv_query_port(r.ctx, 1, &p), 0);
    assert_int_equal(p.state, IBV_PORT_ACTIVE);
    assert_int_equal(p.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_not_equal(ibv_query_port(r.ctx, 2, &p), 0);
    assert_int_equal(ibv_query_gid(r.ctx, 1, 0, &gid), 0);
    assert_true(gid.global.interface_id != 0);
    struct ibv_gid_entry e;
    assert_int_equal(ibv_query_gid_ex(r.ctx, 1, 0, &e, 0), 0);
    assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_memory_equal(e.gid.raw, gid.raw, 16);
    rig_close(&r);
}

static void sizes(void **state)
{
    static const uint32_t n[] = {0, 1, 7, 64, 4095, 4096, 65535, 65536, 65537, 1 << 20, (1 << 20) + 3};
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 2 << 20, RIG_ALL), b = rig_buffer(&r, 2 << 20, RIG_ALL);
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        uint8_t seed = (uint8_t)(i * 3 + 1);
        fill(&b, seed);
        memset(a.p, 0xee, a.size);
        assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, i, a.p, n[i], a.mr->lkey, b.p + 5, b.mr->rkey), 0);
        struct ibv_wc wc = rig_wait(r.cq[0]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
        assert_int_equal(wc.byte_len, n[i]);
        assert_true(filled(a.p, n[i], seed, 5));
        assert_int_equal(a.p[n[i]], 0xee);

        fill(&a, seed);
        memset(b.p, 0xee, b.size);
        assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_WRITE, i, a.p, n[i], a.mr->lkey, b.p + 3, b.mr->rkey), 0);
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        assert_true(filled(b.p + 3, n[i], seed, 0));
        assert_int_equal(b.p[n[i] + 3], 0xee);
        assert_int_equal(b.p[2], 0xee);

        memset(b.p, 0xee, b.size);
        assert_int_equal(post_recv(r.qp[1], 77, b.p, 2 << 20, b.mr->lkey), 0);
        assert_int_equal(post_send(r.qp[0], i, a.p, n[i], a.mr->lkey, IBV_SEND_SIGNALED), 0);
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        wc = rig_wait(r.cq[1]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_RECV);
        assert_int_equal(wc.byte_len, n[i]);
        assert_int_equal(wc.qp_num, r.qp[1]->qp_num);
        assert_true(filled(b.p, n[i], seed, 0));
        assert_int_equal(b.p[n[i]], 0xee);
    }
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

/* Four SGEs on one side, three of other sizes on the other. */
static void scatter_gather(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 400000, RIG_ALL), b = rig_buffer(&r, 400000, RIG_ALL);
    fill(&a, 9);
    struct ibv_sge from[4] = {{(uintptr_t)a.p, 10, a.mr->lkey},
                              {(uintptr_t)a.p + 10, 0, a.mr->lkey},
                              {(uintptr_t)a.p + 10, 200000, a.mr->lkey},
                              {(uintptr_t)a.p + 200010, 3, a.mr->lkey}};
    struct ibv_sge to[3] = {{(uintptr_t)b.p + 1000, 70000, b.mr->lkey},
                            {(uintptr_t)b.p + 100000, 1, b.mr->lkey},
                            {(uintptr_t)b.p + 110000, 250000, b.mr->lkey}};
    struct ibv_recv_wr rw = {.wr_id = 1, .sg_list = to, .num_sge = 3}, *badr;
    struct ibv_send_wr sw = {.wr_id = 2, .sg_list = from, .num_sge = 4, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bads;
    assert_int_equal(ibv_post_recv(r.qp[1], &rw, &badr), 0);
    assert_int_equal(ibv_post_send(r.qp[0], &sw, &bads), 0);
    rig_expect(r.cq[0], 2, IBV_WC_SUCCESS);
    rig_expect(r.cq[1], 1, IBV_WC_SUCCESS);
    assert_true(filled(b.p + 1000, 70000, 9, 0));
    assert_true(filled(b.p + 100000, 1, 9, 70000));
    assert_true(filled(b.p + 110000, 200013 - 70001, 9, 70001));

    memset(b.p, 0, b.size);
    sw.opcode = IBV_WR_RDMA_READ; /* scatter what is read */
    sw.sg_list = to;
    sw.num_sge = 3;
    to[2].length = 100000;
    sw.wr.rdma.remote_addr = (uintptr_t)a.p;
    sw.wr.rdma.rkey = a.mr->rkey;
    assert_int_equal(ibv_post_send(r.qp[0], &sw, &bads), 0);
    rig_expect(r.cq[0], 2, IBV_WC_SUCCESS);
    assert_true(filled(b.p + 1000, 70000, 9, 0) && filled(b.p + 110000, 100000, 9, 70001));
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void immediate_and_inline(void **state)
{
    struct rig_options o = {.inline_bytes = 128};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer b = rig_buffer(&r, 4096, RIG_ALL);
    uint8_t mine[100];
    memset(mine, 0x5a, sizeof mine);
    struct ibv_sge s = {.addr = (uintptr_t)mine, .length = sizeof mine}; /* not registered: inline needs no key */
    struct ibv_send_wr w = {.wr_id = 1,
                            .sg_list = &s,
                            .num_sge = 1,
                            .opcode = IBV_WR_SEND_WITH_IMM,
                            .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                            .imm_data = 0x12345678};
    assert_int_equal(post_recv(r.qp[1], 5, b.p, 4096, b.mr->lkey), 0);
    assert_int_equal(post(r.qp[0], w), 0);
    memset(mine, 0, sizeof mine); /* the buffer is ours again as soon as the post returned */
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    struct ibv_wc wc = rig_wait(r.cq[1]);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 0x12345678);
    assert_int_equal(b.p[99], 0x5a);

    w.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    w.wr.rdma.remote_addr = (uintptr_t)b.p + 200;
    w.wr.rdma.rkey = b.mr->rkey;
    memset(mine, 0x77, sizeof mine);
    assert_int_equal(post_recv(r.qp[1], 6, NULL, 0, 0), 0);
    assert_int_equal(post(r.qp[0], w), 0);
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    wc = rig_wait(r.cq[1]);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.byte_len, 100);
    assert_int_equal(wc.wr_id, 6);
    assert_int_equal(b.p[299], 0x77);

    s.length = 129;
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(r.qp[0], &w, &bad), EINVAL);
    rig_free(&b);
    rig_close(&r);
}

static void atomics(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    uint64_t *target = (uint64_t *)(void *)b.p, *found = (uint64_t *)(void *)a.p;
    *target = 40;
    struct ibv_sge s = {.addr = (uintptr_t)found, .length = 8, .lkey = a.mr->lkey};
    struct ibv_send_wr w = {.wr_id = 1,
                            .sg_list = &s,
                            .num_sge = 1,
                            .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                            .send_flags = IBV_SEND_SIGNALED,
                            .wr.atomic = {.remote_addr = (uintptr_t)target, .rkey = b.mr->rkey, .compare_add = 2}};
    assert_int_equal(post(r.qp[0], w), 0);
    struct ibv_wc wc = rig_wait(r.cq[0]);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
    assert_int_equal(*found, 40);
    assert_int_equal(*target, 42);
    w.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    w.wr.atomic.compare_add = 42;
    w.wr.atomic.swap = 7;
    assert_int_equal(post(r.qp[0], w), 0);
    wc = rig_wait(r.cq[0]);
    assert_int_equal(wc.opcode, IBV_WC_COMP_SWAP);
    assert_int_equal(*found, 42);
    assert_int_equal(*target, 7);
    assert_int_equal(post(r.qp[0], w), 0); /* no match: unchanged */
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(*found, 7);
    assert_int_equal(*target, 7);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

/* Many READs and WRITEs at once, completions in posting order, every byte where it belongs. */
static void pipelined(void **state)
{
    enum { DEPTH = 64, CHUNK = 70000 };
    struct rig_options o = {.send_wr = DEPTH, .rd_atomic = 8};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, DEPTH * CHUNK, RIG_ALL), b = rig_buffer(&r, DEPTH * CHUNK, RIG_ALL);
    fill(&b, 3);
    for (int round = 0; round < 3; round++) {
        memset(a.p, 0, a.size);
        for (uint64_t i = 0; i < DEPTH; i++)
            assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, i, a.p + i * CHUNK, CHUNK, a.mr->lkey, b.p + i * CHUNK,
                                       b.mr->rkey),
                             0);
        for (uint64_t i = 0; i < DEPTH; i++)
            rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        assert_true(filled(a.p, a.size, 3, 0));
    }
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void unsignaled(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    struct ibv_sge s = {(uintptr_t)a.p, 64, a.mr->lkey};
    struct ibv_send_wr w = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                            .wr.rdma = {(uintptr_t)b.p, b.mr->rkey}};
    for (int i = 0; i < 10; i++)
        assert_int_equal(post(r.qp[0], w), 0);
    w.wr_id = 2;
    w.send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(post(r.qp[0], w), 0);
    rig_expect(r.cq[0], 2, IBV_WC_SUCCESS); /* the only one */
    assert_true(rig_quiet(r.cq[0], 20));
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);

    struct rig_options o = {.sig_all = true};
    rig_open(&r, &o);
    a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    s = (struct ibv_sge){(uintptr_t)a.p, 64, a.mr->lkey};
    w = (struct ibv_send_wr){.wr_id = 3, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)b.p, b.mr->rkey}};
    assert_int_equal(post(r.qp[0], w), 0);
    rig_expect(r.cq[0], 3, IBV_WC_SUCCESS);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

/* A full queue refuses, names the first WR it refused, keeps the ones before, and has room again when completions have
 * been polled - not before. */
static void queue_full(void **state)
{
    struct rig_options o = {.send_wr = 4, .recv_wr = 4, .cqe = 1024};
    struct rig r;
    static struct ibv_send_wr w[1024];
    struct ibv_send_wr *bad = NULL;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    assert_int_equal(ibv_query_qp(r.qp[0], &attr, IBV_QP_CAP, &init), 0);
    uint32_t size = attr.cap.max_send_wr; /* at least what was asked for, and exactly what is accepted */
    assert_true(size >= 4 && size < 1000);
    struct ibv_sge s = {(uintptr_t)a.p, 8, a.mr->lkey};
    for (uint32_t i = 0; i < size + 2; i++)
        w[i] = (struct ibv_send_wr){.wr_id = i, .next = i < size + 1 ? &w[i + 1] : NULL, .sg_list = &s, .num_sge = 1,
                                    .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                    .wr.rdma = {(uintptr_t)b.p, b.mr->rkey}};
    assert_int_equal(ibv_post_send(r.qp[0], w, &bad), ENOMEM);
    assert_ptr_equal(bad, &w[size]);
    usleep(50000);
    assert_int_equal(ibv_post_send(r.qp[0], &w[size + 1], &bad), ENOMEM); /* done by now, but not polled */
    for (uint32_t i = 0; i < size; i++)
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
    assert_int_equal(ibv_post_send(r.qp[0], &w[size + 1], &bad), 0);
    rig_expect(r.cq[0], size + 1, IBV_WC_SUCCESS);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(post_recv(r.qp[1], i, b.p, 8, b.mr->lkey), 0);
    assert_int_equal(post_recv(r.qp[1], 4, b.p, 8, b.mr->lkey), ENOMEM);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static int modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
    struct ibv_qp_attr a = {.qp_state = to, .port_num = 1};
    return ibv_modify_qp(qp, &a, mask | IBV_QP_STATE);
}

static void states(void **state)
{
    struct rig_options o = {.connect_nothing = true};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL);
    const int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    assert_int_equal(rig_state(r.qp[0]), IBV_QPS_RESET);
    assert_int_equal(post_send(r.qp[0], 1, a.p, 8, a.mr->lkey, 0), EINVAL);
    assert_int_equal(post_recv(r.qp[0], 1, a.p, 8, a.mr->lkey), EINVAL);
    assert_int_equal(modify(r.qp[0], IBV_QPS_RTS, 0), EINVAL);
    assert_int_equal(modify(r.qp[0], IBV_QPS_RTR, 0), EINVAL);
    assert_int_equal(modify(r.qp[0], IBV_QPS_INIT, IBV_QP_PORT), EINVAL); /* something is missing */
    assert_int_equal(modify(r.qp[0], IBV_QPS_INIT, init | IBV_QP_SQ_PSN), EINVAL); /* something does not belong */
    assert_int_equal(modify(r.qp[0], IBV_QPS_INIT, init), 0);
    assert_int_equal(post_recv(r.qp[0], 1, a.p, 8, a.mr->lkey), 0);
    assert_int_equal(post_send(r.qp[0], 1, a.p, 8, a.mr->lkey, 0), EINVAL);
    assert_int_equal(modify(r.qp[0], IBV_QPS_ERR, 0), 0);
    rig_expect(r.cq[0], 1, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(post_recv(r.qp[0], 2, a.p, 8, a.mr->lkey), 0); /* accepted and flushed */
    rig_expect(r.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(post_send(r.qp[0], 3, a.p, 8, a.mr->lkey, 0), 0);
    rig_expect(r.cq[0], 3, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(modify(r.qp[0], IBV_QPS_INIT, init), EINVAL); /* only through RESET */
    assert_int_equal(modify(r.qp[0], IBV_QPS_RESET, 0), 0);
    rig_connect(&r, r.qp[0], r.qp[1], 0);
    rig_connect(&r, r.qp[1], r.qp[0], 0);
    assert_int_equal(rig_state(r.qp[0]), IBV_QPS_RTS);
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 9, a.p, 8, a.mr->lkey, a.p + 100, a.mr->rkey), 0);
    rig_expect(r.cq[0], 9, IBV_WC_SUCCESS);

    assert_int_equal(modify(r.qp[0], IBV_QPS_SQD, 0), 0); /* drained: nothing new starts */
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 10, a.p, 8, a.mr->lkey, a.p + 100, a.mr->rkey), 0);
    assert_true(rig_quiet(r.cq[0], 50));
    assert_int_equal(modify(r.qp[0], IBV_QPS_RTS, 0), 0);
    rig_expect(r.cq[0], 10, IBV_WC_SUCCESS);

    struct ibv_qp_attr q, later = {.min_rnr_timer = 12};
    struct ibv_qp_init_attr i;
    assert_int_equal(ibv_modify_qp(r.qp[0], &later, IBV_QP_MIN_RNR_TIMER), 0); /* RTS -> RTS */
    assert_int_equal(ibv_query_qp(r.qp[0], &q, 0, &i), 0);
    assert_int_equal(q.min_rnr_timer, 12);
    assert_int_equal(q.dest_qp_num, r.qp[1]->qp_num);
    assert_int_equal(q.timeout, 14);
    rig_free(&a);
    rig_close(&r);
}

static void shared_receive_queue(void **state)
{
    struct rig_options o = {.use_srq = true, .recv_wr = 16};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(post_recv(r.qp[1], 100 + i, b.p + i * 64, 64, b.mr->lkey), 0);
    struct ibv_srq_attr limit = {.srq_limit = 6};
    assert_int_equal(ibv_modify_srq(r.srq, &limit, IBV_SRQ_LIMIT), 0);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(post_send(r.qp[0], i, a.p, 64, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    for (uint64_t i = 0; i < 8; i++) {
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        rig_expect(r.cq[1], 100 + i, IBV_WC_SUCCESS);
    }
    struct pollfd p = {.fd = r.ctx->async_fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, RIG_DEADLINE_MS), 1);
    struct ibv_async_event ev;
    assert_int_equal(ibv_get_async_event(r.ctx, &ev), 0);
    assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(ev.element.srq, r.srq);
    ibv_ack_async_event(&ev);
    assert_int_equal(ibv_query_srq(r.srq, &limit), 0);
    assert_int_equal(limit.srq_limit, 0); /* one shot */
    assert_int_equal(ibv_destroy_srq(r.srq), EBUSY);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void completion_channel(void **state)
{
    struct rig_options o = {.use_channel = true};
    struct rig r;
    struct ibv_cq *cq;
    void *context;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    assert_int_equal(fcntl(r.channel->fd, F_SETFL, fcntl(r.channel->fd, F_GETFL) | O_NONBLOCK), 0);
    assert_int_equal(ibv_get_cq_event(r.channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
    int ep = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN};
    assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, r.channel->fd, &ev), 0);
    assert_int_equal(epoll_wait(ep, &ev, 1, 0), 0);

    assert_int_equal(post_send(r.qp[0], 0, a.p, 0, 0, IBV_SEND_SIGNALED), 0); /* not armed: no event (RNR meanwhile) */
    assert_int_equal(post_recv(r.qp[1], 0, b.p, 64, b.mr->lkey), 0);
    rig_expect(r.cq[0], 0, IBV_WC_SUCCESS);
    rig_expect(r.cq[1], 0, IBV_WC_SUCCESS);
    assert_int_equal(epoll_wait(ep, &ev, 1, 0), 0);

    assert_int_equal(ibv_req_notify_cq(r.cq[0], 0), 0);
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 1, a.p, 64, a.mr->lkey, b.p, b.mr->rkey), 0);
    assert_int_equal(epoll_wait(ep, &ev, 1, RIG_DEADLINE_MS), 1);
    assert_int_equal(ibv_get_cq_event(r.channel, &cq, &context), 0);
    assert_ptr_equal(cq, r.cq[0]);
    assert_ptr_equal(context, &r);
    ibv_ack_cq_events(cq, 1);
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_get_cq_event(r.channel, &cq, &context), -1); /* one request, one event */

    assert_int_equal(ibv_req_notify_cq(r.cq[1], 1), 0); /* solicited only */
    for (int i = 0; i < 2; i++)
        assert_int_equal(post_recv(r.qp[1], (uint64_t)i, b.p, 64, b.mr->lkey), 0);
    assert_int_equal(post_send(r.qp[0], 2, a.p, 8, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    rig_expect(r.cq[1], 0, IBV_WC_SUCCESS);
    assert_int_equal(epoll_wait(ep, &ev, 1, 20), 0);
    assert_int_equal(post_send(r.qp[0], 3, a.p, 8, a.mr->lkey, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
    assert_int_equal(epoll_wait(ep, &ev, 1, RIG_DEADLINE_MS), 1);
    rig_expect(r.cq[1], 1, IBV_WC_SUCCESS);
    /* the event stays unread: destroying the CQ takes it away */
    rig_expect(r.cq[0], 2, IBV_WC_SUCCESS);
    rig_expect(r.cq[0], 3, IBV_WC_SUCCESS);
    rig_free(&a);
    rig_free(&b);
    assert_int_equal(ibv_destroy_comp_channel(r.channel), EBUSY);
    close(ep);
    rig_close(&r);
}

static void extended_verbs(void **state)
{
    struct rig_options o = {.extended = true, .inline_bytes = 64};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 8192, RIG_ALL), b = rig_buffer(&r, 8192, RIG_ALL);
    struct ibv_qp_ex *q = ibv_qp_to_qp_ex(r.qp[0]);
    assert_non_null(q);
    fill(&b, 4);
    ibv_wr_start(q);
    for (uint64_t i = 0; i < 4; i++) {
        q->wr_id = i;
        q->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_read(q, b.mr->rkey, (uintptr_t)b.p + i * 1000);
        ibv_wr_set_sge(q, a.mr->lkey, (uintptr_t)a.p + i * 1000, 1000);
    }
    assert_int_equal(ibv_wr_complete(q), 0);
    for (uint64_t i = 0; i < 4; i++)
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
    assert_true(filled(a.p, 4000, 4, 0));

    ibv_wr_start(q); /* abort leaves nothing behind */
    q->wr_id = 50;
    ibv_wr_rdma_read(q, b.mr->rkey, (uintptr_t)b.p);
    ibv_wr_set_sge(q, a.mr->lkey, (uintptr_t)a.p, 8);
    ibv_wr_abort(q);
    assert_true(rig_quiet(r.cq[0], 20));

    char text[] = "inline, extended";
    assert_int_equal(post_recv(r.qp[1], 60, b.p, 64, b.mr->lkey), 0);
    ibv_wr_start(q);
    q->wr_id = 51;
    q->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ibv_wr_send_imm(q, 99);
    ibv_wr_set_inline_data(q, text, sizeof text);
    memset(text, 0, sizeof text);
    assert_int_equal(ibv_wr_complete(q), 0);
    rig_expect(r.cq[0], 51, IBV_WC_SUCCESS);
    struct ibv_wc wc = rig_wait(r.cq[1]);
    assert_int_equal(wc.imm_data, 99);
    assert_string_equal((char *)b.p, "inline, extended");

    ibv_wr_start(q); /* more than the queue holds: all or nothing */
    for (uint64_t i = 0; i < 2000; i++) {
        q->wr_id = i;
        ibv_wr_rdma_read(q, b.mr->rkey, (uintptr_t)b.p);
        ibv_wr_set_sge(q, a.mr->lkey, (uintptr_t)a.p, 8);
    }
    assert_int_equal(ibv_wr_complete(q), ENOMEM);
    assert_true(rig_quiet(r.cq[0], 20));
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

static void extended_cq(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct ibv_cq_init_attr_ex ca = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM};
    struct ibv_cq_ex *cx = ibv_create_cq_ex(r.ctx, &ca);
    assert_non_null(cx);
    struct ibv_qp_init_attr qa = {.send_cq = ibv_cq_ex_to_cq(cx), .recv_cq = ibv_cq_ex_to_cq(cx), .qp_type = IBV_QPT_RC,
                                  .cap = {8, 8, 1, 1, 0}};
    struct ibv_qp *qp = ibv_create_qp(r.pd, &qa);
    assert_non_null(qp);
    rig_connect(&r, qp, qp, 0); /* to itself */
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL);
    struct ibv_poll_cq_attr pa = {0};
    assert_int_equal(ibv_start_poll(cx, &pa), ENOENT);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(post_rdma(qp, IBV_WR_RDMA_READ, 70 + i, a.p, 100, a.mr->lkey, a.p + 200, a.mr->rkey), 0);
    usleep(50000);
    uint64_t got = 0, until = now_ms() + RIG_DEADLINE_MS;
    while (got < 3 && now_ms() < until) {
        int e = ibv_start_poll(cx, &pa);
        if (e)
            continue;
        do {
            assert_int_equal(cx->wr_id, 70 + got);
            assert_int_equal(cx->status, IBV_WC_SUCCESS);
            assert_int_equal(ibv_wc_read_opcode(cx), IBV_WC_RDMA_READ);
            assert_int_equal(ibv_wc_read_byte_len(cx), 100);
            got++;
        } while (ibv_next_poll(cx) == 0);
        ibv_end_poll(cx);
    }
    assert_int_equal(got, 3);
    assert_int_equal(ibv_start_poll(cx, &pa), ENOENT);
    rig_free(&a);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cx)), 0);
    rig_close(&r);
}

static void many_queue_pairs(void **state)
{
    enum { PAIRS = 512 };
    static struct ibv_qp *qp[2 * PAIRS];
    struct rig_options o = {.cqe = 4096};
    struct rig r;
    (void)state;
    rig_open(&r, &o);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    fill(&b, 8);
    for (int i = 0; i < 2 * PAIRS; i++) {
        struct ibv_qp_init_attr qa = {.send_cq = r.cq[0], .recv_cq = r.cq[1], .qp_type = IBV_QPT_RC, .cap = {4, 1, 1, 1, 0}};
        qp[i] = ibv_create_qp(r.pd, &qa);
        assert_non_null(qp[i]);
        for (int k = 0; k < i; k += 97)
            assert_int_not_equal(qp[k]->qp_num, qp[i]->qp_num);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        rig_connect(&r, qp[i], qp[i ^ 1], 0);
    for (int i = 0; i < 2 * PAIRS; i++)
        assert_int_equal(post_rdma(qp[i], IBV_WR_RDMA_READ, (uint64_t)i, a.p, 4096, a.mr->lkey, b.p, b.mr->rkey), 0);
    for (int i = 0; i < 2 * PAIRS; i++) {
        struct ibv_wc wc = rig_wait(r.cq[0]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    assert_true(filled(a.p, 4096, 8, 0));
    for (int i = 0; i < 2 * PAIRS; i++)
        assert_int_equal(ibv_destroy_qp(qp[i]), 0);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes),       cmocka_unit_test(sizes),
        cmocka_unit_test(scatter_gather),   cmocka_unit_test(immediate_and_inline),
        cmocka_unit_test(atomics),          cmocka_unit_test(pipelined),
        cmocka_unit_test(unsignaled),       cmocka_unit_test(queue_full),
        cmocka_unit_test(states),           cmocka_unit_test(shared_receive_queue),
        cmocka_unit_test(completion_channel), cmocka_unit_test(extended_verbs),
        cmocka_unit_test(extended_cq),      cmocka_unit_test(many_queue_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
