/* Requests that must not pass: what the requester is told, what becomes of the two queue pairs, and that the memory was
 * left alone. */
#include <string.h>

#include "pair.h"

struct access_case {
    enum ibv_wr_opcode op;
    unsigned int local_access, remote_access; /* of the MRs */
    unsigned int qp_access;                   /* of the responder */
    uint32_t rkey_add, lkey_add;
    int64_t remote_at; /* where in the responder's buffer of 4096 bytes */
    uint32_t local_at;
    bool remote_pd, local_pd; /* that MR belongs to another protection domain */
    bool remote_dead;         /* and that one is deregistered */
};

#define LENGTH 64
#define SIZE 4096

static int post_case(struct pair *p, const struct access_case *c, uint64_t wr_id)
{
    uint64_t remote = (uintptr_t)p->buf[1].p + (uint64_t)c->remote_at;
    uint32_t rkey = p->buf[1].mr->rkey + c->rkey_add;
    bool atomic = c->op == IBV_WR_ATOMIC_FETCH_AND_ADD || c->op == IBV_WR_ATOMIC_CMP_AND_SWP;
    struct ibv_sge s = sge(&p->buf[0], c->local_at, atomic ? 8 : LENGTH);
    s.lkey += c->lkey_add;
    struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &s, .num_sge = 1, .opcode = c->op};
    if (atomic) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = rkey;
    }
    return post(p->qp[0], wr);
}

static void run_case(const void *arg)
{
    const struct access_case *c = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    o.size = SIZE;
    o.mr_access[0] = c->local_access;
    o.mr_access[1] = c->remote_access;
    o.qp_access[1] = c->qp_access;
    pair_open(&p, &o);
    struct ibv_pd *other = need_ptr(ibv_alloc_pd(p.ctx), "ibv_alloc_pd");
    if (c->local_pd)
        p.buf[0] = pair_buffer(other, SIZE, c->local_access);
    if (c->remote_pd)
        p.buf[1] = pair_buffer(other, SIZE, c->remote_access);
    fill(&p.buf[0], 1);
    fill(&p.buf[1], 2);
    struct ibv_mr mr = *p.buf[1].mr; /* its keys are asked for when it is gone */
    if (c->remote_dead) {
        need(ibv_dereg_mr(p.buf[1].mr), "ibv_dereg_mr");
        p.buf[1].mr = &mr;
    }
    int e = post_case(&p, c, 1);
    if (e) {
        say("post %s", error_name(e));
        return;
    }
    say("%s", outcome(p.cq[0], 1));
    say("requester %s", state_name(wait_state(p.qp[0], IBV_QPS_ERR)));
    say("responder %s", state_name(state_of(p.qp[1])));
    need(post_case(&p, c, 2), "ibv_post_send in ERR");
    say("next %s", outcome(p.cq[0], 2));
    if (!filled(p.buf[0].p, SIZE, 1, 0))
        say("requester's memory changed");
    if (!filled(p.buf[1].p, SIZE, 2, 0))
        say("responder's memory changed");
}

static void recv_not_writable(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.mr_access[1] = 0;
    pair_open(&p, &o);
    need(post_recv(&p, 1, 7, 100), "ibv_post_recv");
    need(post_send(&p, 1, 100), "ibv_post_send");
    say("send %s", outcome(p.cq[0], 1));
    say("recv %s", outcome(p.cq[1], 7));
    say("requester %s", state_name(wait_state(p.qp[0], IBV_QPS_ERR)));
    say("responder %s", state_name(wait_state(p.qp[1], IBV_QPS_ERR)));
}

/* The R_Key of a request for zero bytes is not looked at. */
static void zero_length_any_rkey(const void *arg)
{
    const enum ibv_wr_opcode *op = arg;
    struct pair p;
    pair_open(&p, NULL);
    struct ibv_send_wr wr = {.wr_id = 1, .opcode = *op, .wr.rdma = {0, p.buf[1].mr->rkey + 1}};
    need(post(p.qp[0], wr), "ibv_post_send");
    say("%s", outcome(p.cq[0], 1));
}

#define READ IBV_WR_RDMA_READ
#define WRITE IBV_WR_RDMA_WRITE
#define FADD IBV_WR_ATOMIC_FETCH_AND_ADD
#define CASE(operation, ...) \
    &(const struct access_case){.op = operation, .local_access = ALL_ACCESS, .remote_access = ALL_ACCESS, \
                                .qp_access = ALL_ACCESS, __VA_ARGS__}
#pragma GCC diagnostic ignored "-Woverride-init" /* CASE() states defaults that a row may replace */

#define REMOTE_ACCESS "REM_ACCESS_ERR, requester ERR, responder ERR, next WR_FLUSH_ERR"
#define REMOTE_REQUEST "REM_INV_REQ_ERR, requester ERR, responder ERR, next WR_FLUSH_ERR"
#define LOCAL "LOC_PROT_ERR, requester ERR, responder RTS, next WR_FLUSH_ERR"
#define RKEY "IBA 9.7.4.1.5: R_Key validation; 9.9.3: NAK, class C"
#define ENABLED "IBA 9.7.4.1.2: the operation must be enabled on the QP; NAK invalid request"
#define LKEY "IBA 10.6.4.2, 11.6.2: local protection error"
#define WRITABLE IBV_ACCESS_LOCAL_WRITE

const struct check access_checks[] = {
    {"access_rkey_wrong_read", run_case, REMOTE_ACCESS, RKEY, CASE(READ, .rkey_add = 1)},
    {"access_rkey_wrong_write", run_case, REMOTE_ACCESS, RKEY, CASE(WRITE, .rkey_add = 1)},
    {"access_rkey_wrong_atomic", run_case, REMOTE_ACCESS, RKEY, CASE(FADD, .rkey_add = 1)},
    {"access_rkey_dead", run_case, REMOTE_ACCESS, RKEY, CASE(READ, .remote_dead = true)},
    {"access_one_byte_beyond", run_case, REMOTE_ACCESS, RKEY, CASE(READ, .remote_at = SIZE - LENGTH + 1)},
    {"access_one_byte_before", run_case, REMOTE_ACCESS, RKEY, CASE(WRITE, .remote_at = -1)},
    {"access_address_wraps", run_case, REMOTE_ACCESS, RKEY, CASE(READ, .remote_at = INT64_MAX)},
    {"access_mr_without_read", run_case, REMOTE_ACCESS, RKEY, CASE(READ, .remote_access = WRITABLE)},
    {"access_mr_without_write", run_case, REMOTE_ACCESS, RKEY, CASE(WRITE, .remote_access = WRITABLE | IBV_ACCESS_REMOTE_READ)},
    {"access_mr_without_atomic", run_case, REMOTE_ACCESS, RKEY,
     CASE(FADD, .remote_access = WRITABLE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)},
    {"access_other_pd_remote", run_case, REMOTE_ACCESS, RKEY, CASE(READ, .remote_pd = true)},
    {"access_qp_without_read", run_case, REMOTE_REQUEST, ENABLED, CASE(READ, .qp_access = IBV_ACCESS_REMOTE_WRITE)},
    {"access_qp_without_write", run_case, REMOTE_REQUEST, ENABLED, CASE(WRITE, .qp_access = IBV_ACCESS_REMOTE_READ)},
    {"access_qp_without_atomic", run_case, REMOTE_REQUEST, ENABLED, CASE(FADD, .qp_access = IBV_ACCESS_REMOTE_READ)},
    {"access_atomic_misaligned", run_case, REMOTE_REQUEST, "IBA 9.4.5: aligned to 8 bytes; NAK invalid request",
     CASE(FADD, .remote_at = 4)},
    {"access_lkey_wrong_read", run_case, LOCAL, LKEY, CASE(READ, .lkey_add = 1)},
    {"access_lkey_wrong_write", run_case, LOCAL, LKEY, CASE(WRITE, .lkey_add = 1)},
    {"access_local_range", run_case, LOCAL, LKEY, CASE(WRITE, .local_at = SIZE - LENGTH + 1)},
    {"access_read_not_writable", run_case, LOCAL, LKEY, CASE(READ, .local_access = 0)},
    {"access_other_pd_local", run_case, LOCAL, LKEY, CASE(WRITE, .local_pd = true)},
    {"access_recv_not_writable", recv_not_writable, "send REM_OP_ERR, recv LOC_PROT_ERR, requester ERR, responder ERR",
     "IBA 9.9.3, 11.6.2: remote operation error", NULL},
    {"access_zero_length_read", zero_length_any_rkey, "ok", "IBA 9.7.4.1.5, C9-88: not validated",
     &(const enum ibv_wr_opcode){READ}},
    {"access_zero_length_write", zero_length_any_rkey, "ok", "IBA 9.7.4.1.5, C9-88: not validated",
     &(const enum ibv_wr_opcode){WRITE}},
    {0},
};
