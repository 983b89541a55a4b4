/* The states of a queue pair: which transitions exist and which attributes each demands and allows. */
#include <errno.h>
#include <string.h>

#include "pair.h"

/* From one state to another with everything that the target state wants, then spoilt. */
struct move {
    enum ibv_qp_state from, to;
    int drop, add; /* bits of the attribute mask */
    void (*spoil)(struct pair *p, struct ibv_qp_attr *a);
};

static void run_move(const void *arg)
{
    const struct move *m = arg;
    struct pair_options o = pair_defaults;
    struct pair p;
    int mask;
    o.unconnected = true;
    pair_open(&p, &o);
    pair_walk(&p, p.qp[0], p.qp[1], m->from);
    struct ibv_qp_attr a = pair_attr(&p, p.qp[0], p.qp[1], m->to, &mask);
    if (m->spoil)
        m->spoil(&p, &a);
    say("%s", error_name(ibv_modify_qp(p.qp[0], &a, (mask & ~m->drop) | m->add)));
    say("%s", state_name(state_of(p.qp[0])));
}

static void port_2(struct pair *p, struct ibv_qp_attr *a)
{
    a->port_num = (uint8_t)(p->dev.phys_port_cnt + 1);
}

static void pkey_out_of_table(struct pair *p, struct ibv_qp_attr *a)
{
    a->pkey_index = p->dev.max_pkeys;
}

static void gid_out_of_table(struct pair *p, struct ibv_qp_attr *a)
{
    struct ibv_port_attr port;
    need(ibv_query_port(p->ctx, 1, &port), "ibv_query_port");
    a->ah_attr.grh.sgid_index = (uint8_t)(port.gid_tbl_len < 255 ? port.gid_tbl_len : 255);
}

static void mtu_9(struct pair *p, struct ibv_qp_attr *a)
{
    (void)p;
    a->path_mtu = 9;
}

static void no_grh(struct pair *p, struct ibv_qp_attr *a)
{
    (void)p;
    a->ah_attr.is_global = 0;
}

static void too_many_reads_in(struct pair *p, struct ibv_qp_attr *a)
{
    a->max_dest_rd_atomic = (uint8_t)(p->dev.max_qp_rd_atom + 1);
}

static void too_many_reads_out(struct pair *p, struct ibv_qp_attr *a)
{
    a->max_rd_atomic = (uint8_t)(p->dev.max_qp_init_rd_atom + 1);
}

static void claims_rts(struct pair *p, struct ibv_qp_attr *a)
{
    (void)p;
    a->cur_qp_state = IBV_QPS_RTS;
}

static void whole_life(const void *arg)
{
    struct pair_options o = pair_defaults;
    struct pair p;
    (void)arg;
    o.unconnected = true;
    pair_open(&p, &o);
    static const enum ibv_qp_state path[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QPS_RESET};
    say("%s", state_name(state_of(p.qp[0])));
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        int mask;
        struct ibv_qp_attr a = pair_attr(&p, p.qp[0], p.qp[1], path[i], &mask);
        need(ibv_modify_qp(p.qp[0], &a, mask), state_name(path[i]));
        say("%s", state_name(state_of(p.qp[0])));
    }
}

/* A queue pair that failed and was reset is as good as new. */
static void second_life(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    need(post_recv(&p, 1, 9, 100), "ibv_post_recv");
    for (int i = 0; i < 2; i++)
        need(to_state(p.qp[i], IBV_QPS_ERR), "ERR");
    say("%s", outcome(p.cq[1], 9));
    for (int i = 0; i < 2; i++)
        need(to_state(p.qp[i], IBV_QPS_RESET), "RESET");
    for (int i = 0; i < 2; i++)
        pair_walk(&p, p.qp[i], p.qp[!i], IBV_QPS_RTS);
    fill(&p.buf[1], 3);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 1000), "ibv_post_send");
    say("%s", outcome(p.cq[0], 1));
    say("%s", filled(p.buf[0].p, 1000, 3, 0) ? "exact" : "wrong data");
}

/* RTS to RTS takes effect: REMOTE_READ is taken away from the responder. */
static void change_in_rts(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    say("%s", error_name(ibv_modify_qp(p.qp[1], &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS)));
    need(post_rdma(&p, IBV_WR_RDMA_WRITE, 1, 100), "ibv_post_send");
    say("WRITE %s", outcome(p.cq[0], 1));
    need(post_rdma(&p, IBV_WR_RDMA_READ, 2, 100), "ibv_post_send");
    say("READ %s", outcome(p.cq[0], 2));
}

static void drain(const void *arg)
{
    struct pair p;
    (void)arg;
    pair_open(&p, NULL);
    need(post_rdma(&p, IBV_WR_RDMA_READ, 1, 65536), "ibv_post_send");
    say("%s", outcome(p.cq[0], 1)); /* what has not begun when SQD comes may be left for later */
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    need(ibv_modify_qp(p.qp[0], &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "SQD");
    void *element = NULL;
    const char *e = async_event(p.ctx, WAIT_MS, &element);
    say("%s", !e ? "no event" : element == p.qp[0] ? e : "event of another queue pair");
    say("%s", state_name(state_of(p.qp[0])));
    need(post_rdma(&p, IBV_WR_RDMA_READ, 2, 100), "ibv_post_send in SQD");
    say("%s", quiet(p.cq[0]) ? "waits" : "does not wait");
    need(to_state(p.qp[0], IBV_QPS_RTS), "RTS");
    say("%s", outcome(p.cq[0], 2));
}

#define MOVE(a, b, ...) &(const struct move){.from = a, .to = b, __VA_ARGS__}
#define MASKS "IBA 11.2.5.2; kernel table of ib_modify_qp_is_ok()"

const struct check state_checks[] = {
    {"state_whole_life", whole_life, "RESET, INIT, RTR, RTS, ERR, RESET", "IBA 10.3.1", NULL},
    {"state_second_life", second_life, "WR_FLUSH_ERR, ok, exact", "IBA 10.3.1.1", NULL},
    {"state_reset_to_rtr", run_move, "EINVAL, RESET", "IBA 10.3.1", MOVE(IBV_QPS_RESET, IBV_QPS_RTR)},
    {"state_reset_to_rts", run_move, "EINVAL, RESET", "IBA 10.3.1", MOVE(IBV_QPS_RESET, IBV_QPS_RTS)},
    {"state_reset_to_err", run_move, "ok, ERR", "IBA 10.3.1.7: from any state", MOVE(IBV_QPS_RESET, IBV_QPS_ERR)},
    {"state_init_to_init", run_move, "ok, INIT", "IBA 10.3.1.2", MOVE(IBV_QPS_INIT, IBV_QPS_INIT)},
    {"state_init_to_rts", run_move, "EINVAL, INIT", "IBA 10.3.1", MOVE(IBV_QPS_INIT, IBV_QPS_RTS)},
    {"state_rtr_to_init", run_move, "EINVAL, RTR", "IBA 10.3.1", MOVE(IBV_QPS_RTR, IBV_QPS_INIT)},
    {"state_rts_to_rtr", run_move, "EINVAL, RTS", "IBA 10.3.1", MOVE(IBV_QPS_RTS, IBV_QPS_RTR)},
    {"state_err_to_rts", run_move, "EINVAL, ERR", "IBA 10.3.1.7", MOVE(IBV_QPS_ERR, IBV_QPS_RTS)},
    {"state_err_to_init", run_move, "EINVAL, ERR", "IBA 10.3.1.7", MOVE(IBV_QPS_ERR, IBV_QPS_INIT)},
    {"state_change_in_rts", change_in_rts, "ok, WRITE ok, READ REM_INV_REQ_ERR", MASKS, NULL},
    {"state_drain", drain, "ok, SQ_DRAINED, SQD, waits, ok", "IBA 10.3.1.5", NULL},
    {"mask_init_without_port", run_move, "EINVAL, RESET", MASKS, MOVE(IBV_QPS_RESET, IBV_QPS_INIT, .drop = IBV_QP_PORT)},
    {"mask_rtr_without_dest_qpn", run_move, "EINVAL, INIT", MASKS, MOVE(IBV_QPS_INIT, IBV_QPS_RTR, .drop = IBV_QP_DEST_QPN)},
    {"mask_rtr_without_av", run_move, "EINVAL, INIT", MASKS, MOVE(IBV_QPS_INIT, IBV_QPS_RTR, .drop = IBV_QP_AV)},
    {"mask_rts_without_sq_psn", run_move, "EINVAL, RTR", MASKS, MOVE(IBV_QPS_RTR, IBV_QPS_RTS, .drop = IBV_QP_SQ_PSN)},
    {"mask_init_with_sq_psn", run_move, "EINVAL, RESET", MASKS, MOVE(IBV_QPS_RESET, IBV_QPS_INIT, .add = IBV_QP_SQ_PSN)},
    {"mask_wrong_cur_state", run_move, "EINVAL, RTR", MASKS,
     MOVE(IBV_QPS_RTR, IBV_QPS_RTS, .add = IBV_QP_CUR_STATE, .spoil = claims_rts)},
    {"value_port", run_move, "EINVAL, RESET", "IBA 11.2.5.2", MOVE(IBV_QPS_RESET, IBV_QPS_INIT, .spoil = port_2)},
    {"value_pkey_index", run_move, "EINVAL, RESET", "IBA 11.2.5.2",
     MOVE(IBV_QPS_RESET, IBV_QPS_INIT, .spoil = pkey_out_of_table)},
    {"value_gid_index", run_move, "EINVAL, INIT", "IBA 11.2.5.2", MOVE(IBV_QPS_INIT, IBV_QPS_RTR, .spoil = gid_out_of_table)},
    {"value_no_grh", run_move, "EINVAL, INIT", "IBA A16.5.1: RoCE addresses by GID", MOVE(IBV_QPS_INIT, IBV_QPS_RTR, .spoil = no_grh)},
    {"value_mtu", run_move, "EINVAL, INIT", "IBA 11.2.5.2", MOVE(IBV_QPS_INIT, IBV_QPS_RTR, .spoil = mtu_9)},
    {"value_reads_in", run_move, "EINVAL, INIT", "IBA 11.2.5.2", MOVE(IBV_QPS_INIT, IBV_QPS_RTR, .spoil = too_many_reads_in)},
    {"value_reads_out", run_move, "EINVAL, RTR", "IBA 11.2.5.2", MOVE(IBV_QPS_RTR, IBV_QPS_RTS, .spoil = too_many_reads_out)},
    {0},
};
