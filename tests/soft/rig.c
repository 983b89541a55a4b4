#include "rig.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void open_device(struct rig *r)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_non_null(list);
    assert_non_null(list[0]);
    r->ctx = ibv_open_device(list[0]);
    assert_non_null(r->ctx);
    ibv_free_device_list(list);
}

static struct ibv_qp *create(struct rig *r, int i)
{
    struct ibv_qp_init_attr_ex a = {
        .send_cq = r->cq[i],
        .recv_cq = r->cq[i],
        .srq = i == 1 ? r->srq : NULL,
        .cap = {.max_send_wr = r->opt.send_wr,
                .max_recv_wr = r->opt.recv_wr,
                .max_send_sge = r->opt.sge,
                .max_recv_sge = r->opt.sge,
                .max_inline_data = r->opt.inline_bytes},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = r->opt.sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = r->pd,
    };
    if (r->opt.extended) {
        a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        a.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |
                           IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                           IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
    }
    return ibv_create_qp_ex(r->ctx, &a);
}

void rig_open(struct rig *r, const struct rig_options *opt)
{
    memset(r, 0, sizeof *r);
    if (opt)
        r->opt = *opt;
    struct rig_options *o = &r->opt;
    o->send_wr = o->send_wr ? o->send_wr : 64;
    o->recv_wr = o->recv_wr ? o->recv_wr : 64;
    o->sge = o->sge ? o->sge : 4;
    o->cqe = o->cqe ? o->cqe : 256;
    o->rd_atomic = o->rd_atomic ? o->rd_atomic : 16;
    o->timeout = o->timeout ? o->timeout : 14;
    o->retry_cnt = o->retry_cnt ? o->retry_cnt : 3;
    o->rnr_retry = o->rnr_retry ? o->rnr_retry : 7;
    o->min_rnr_timer = o->min_rnr_timer ? o->min_rnr_timer : 1;
    open_device(r);
    r->pd = ibv_alloc_pd(r->ctx);
    assert_non_null(r->pd);
    if (o->use_channel) {
        r->channel = ibv_create_comp_channel(r->ctx);
        assert_non_null(r->channel);
    }
    for (int i = 0; i < 2; i++) {
        r->cq[i] = ibv_create_cq(r->ctx, o->cqe, r, r->channel, 0);
        assert_non_null(r->cq[i]);
    }
    if (o->use_srq) {
        struct ibv_srq_init_attr a = {.attr = {.max_wr = o->recv_wr, .max_sge = o->sge}};
        r->srq = ibv_create_srq(r->pd, &a);
        assert_non_null(r->srq);
    }
    for (int i = 0; i < 2; i++) {
        r->qp[i] = create(r, i);
        assert_non_null(r->qp[i]);
    }
    if (!o->connect_nothing) {
        rig_connect(r, r->qp[0], r->qp[1], o->access[0]);
        rig_connect(r, r->qp[1], r->qp[0], o->access[1]);
    }
}

/* a's way to RTS with b as its destination. */
void rig_connect(struct rig *r, struct ibv_qp *a, struct ibv_qp *b, unsigned int access)
{
    const struct rig_options *o = &r->opt;
    union ibv_gid gid;
    assert_int_equal(ibv_query_gid(r->ctx, 1, 0, &gid), 0);
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access ? access : RIG_ALL};
    assert_int_equal(ibv_modify_qp(a, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = b->qp_num,
                              .rq_psn = b->qp_num & 0xffff,
                              .max_dest_rd_atomic = o->rd_atomic,
                              .min_rnr_timer = o->min_rnr_timer,
                              .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}}};
    assert_int_equal(ibv_modify_qp(a, &rtr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .timeout = o->timeout,
                              .retry_cnt = o->retry_cnt,
                              .rnr_retry = o->rnr_retry,
                              .sq_psn = a->qp_num & 0xffff,
                              .max_rd_atomic = o->rd_atomic};
    assert_int_equal(ibv_modify_qp(a, &rts,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

void rig_close(struct rig *r)
{
    for (int i = 0; i < 2; i++)
        if (r->qp[i])
            assert_int_equal(ibv_destroy_qp(r->qp[i]), 0);
    if (r->srq)
        assert_int_equal(ibv_destroy_srq(r->srq), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_cq(r->cq[i]), 0);
    if (r->channel)
        assert_int_equal(ibv_destroy_comp_channel(r->channel), 0);
    assert_int_equal(ibv_dealloc_pd(r->pd), 0);
    assert_int_equal(ibv_close_device(r->ctx), 0);
}

struct buffer rig_buffer(struct rig *r, size_t size, unsigned int access)
{
    struct buffer b = {.size = size, .p = aligned_alloc(4096, (size + 4095) / 4096 * 4096)};
    assert_non_null(b.p);
    memset(b.p, 0, size);
    b.mr = ibv_reg_mr(r->pd, b.p, size, access);
    assert_non_null(b.mr);
    return b;
}

void rig_free(struct buffer *b)
{
    if (b->mr)
        assert_int_equal(ibv_dereg_mr(b->mr), 0);
    free(b->p);
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

/* p[0..n) holds what fill() wrote at offset `from`. */
bool filled(const uint8_t *p, size_t n, uint8_t seed, size_t from)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte_at(seed, from + i))
            return false;
    return true;
}

struct ibv_wc rig_wait(struct ibv_cq *cq)
{
    struct ibv_wc wc = {0};
    uint64_t until = now_ms() + RIG_DEADLINE_MS;
    int n = 0;
    while (now_ms() < until && (n = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    assert_int_equal(n, 1);
    return wc;
}

void rig_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
    struct ibv_wc wc = rig_wait(cq);
    if (wc.wr_id != wr_id || wc.status != status)
        print_error("got wr_id %lu %s, expected %lu %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status),
                    (unsigned long)wr_id, ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.status, status);
}

bool rig_quiet(struct ibv_cq *cq, int ms)
{
    struct ibv_wc wc;
    uint64_t until = now_ms() + (uint64_t)ms;
    while (now_ms() < until) {
        if (ibv_poll_cq(cq, 1, &wc))
            return false;
        usleep(1000);
    }
    return true;
}

enum ibv_qp_state rig_state(struct ibv_qp *qp)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr i;
    assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &i), 0);
    return a.qp_state;
}

void rig_wait_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    uint64_t until = now_ms() + RIG_DEADLINE_MS;
    while (rig_state(qp) != state && now_ms() < until)
        usleep(1000);
    assert_int_equal(rig_state(qp), state);
}

int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad = NULL;
    int e = ibv_post_send(qp, &wr, &bad);
    if (e)
        assert_ptr_equal(bad, &wr);
    return e;
}

int post_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, void *local, uint32_t n, uint32_t lkey, void *remote,
              uint32_t rkey)
{
    struct ibv_sge s = {.addr = (uintptr_t)local, .length = n, .lkey = lkey};
    return post(qp, (struct ibv_send_wr){.wr_id = id,
                                         .sg_list = &s,
                                         .num_sge = 1,
                                         .opcode = op,
                                         .send_flags = IBV_SEND_SIGNALED,
                                         .wr.rdma = {.remote_addr = (uintptr_t)remote, .rkey = rkey}});
}

int post_send(struct ibv_qp *qp, uint64_t id, void *p, uint32_t n, uint32_t lkey, unsigned int flags)
{
    struct ibv_sge s = {.addr = (uintptr_t)p, .length = n, .lkey = lkey};
    return post(qp, (struct ibv_send_wr){.wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags});
}

int post_recv(struct ibv_qp *qp, uint64_t id, void *p, uint32_t n, uint32_t lkey)
{
    struct ibv_sge s = {.addr = (uintptr_t)p, .length = n, .lkey = lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1}, *bad = NULL;
    return qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}
