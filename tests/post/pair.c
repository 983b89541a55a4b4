/* See pair.h. */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { CQE = 4096, ATOMS = 16 };

static const uint64_t every_op = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

void pair_need(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void make_cq(struct pair *pair, enum zc_family family, struct zc_poller *poller)
{
    if (family == ZC_FAMILY_BASIC) {
        poller->cq = ibv_create_cq(pair->context, CQE, NULL, NULL, 0);
    } else {
        struct ibv_cq_init_attr_ex attr = {.cqe = CQE, .wc_flags = IBV_WC_STANDARD_FLAGS};
        poller->ex = ibv_create_cq_ex(pair->context, &attr);
        poller->cq = poller->ex ? ibv_cq_ex_to_cq(poller->ex) : NULL;
    }
    pair_need(poller->cq, "a completion queue");
}

static void make_qp(struct pair *pair, int side, const struct pair_options *options)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_RC, .send_cq = pair->poller[side].cq, .recv_cq = pair->poller[side].cq, .srq = side == 1 ? pair->srq : NULL,
        .cap = {.max_send_wr = options->send_wr, .max_recv_wr = options->recv_wr, .max_send_sge = options->sge,
                .max_recv_sge = options->sge, .max_inline_data = options->inline_bytes},
        .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pair->pd,
    };
    const uint64_t ops = options->ops ? options->ops : every_op;
    if (options->family != ZC_FAMILY_BASIC) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = ops;
    }
    pair->qp[side] = ibv_create_qp_ex(pair->context, &attr);
    pair_need(pair->qp[side], "a queue pair");
    pair->cap = attr.cap;
    errno = -zc_sender_init(&pair->sender[side], pair->qp[side], options->family, ops);
    pair_need(errno == 0, "zc_sender_init");
}

/* The first GID that stands for an IPv4 address, or else the first. */
static union ibv_gid find_gid(struct ibv_context *context, uint8_t *index)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct ibv_port_attr port;
    union ibv_gid gid;
    pair_need(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
    for (*index = 0; *index < port.gid_tbl_len && *index < 16; ++*index)
        if (ibv_query_gid(context, 1, *index, &gid) == 0 && memcmp(gid.raw, mapped, sizeof mapped) == 0)
            return gid;
    *index = 0;
    pair_need(ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
    return gid;
}

static void connect_qp(struct pair *pair, struct ibv_qp *qp, const struct ibv_qp *to)
{
    const unsigned int access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    uint8_t index;
    const union ibv_gid gid = find_gid(pair->context, &index);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
    int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qp_num, .max_dest_rd_atomic = ATOMS, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = index, .hop_limit = 1}},
    };
    rc |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = ATOMS};
    rc |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC);
    pair_need(rc == 0, "connecting a queue pair");
}

static void open_device(struct pair *pair)
{
    struct ibv_device **const list = ibv_get_device_list(NULL);
    pair_need(list && list[0], "no RDMA device");
    pair->context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pair->pd = pair->context ? ibv_alloc_pd(pair->context) : NULL;
    pair_need(pair->pd, "a device with a PD");
}

static void make_memory(struct pair *pair, int side)
{
    const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    pair->memory[side] = mmap(NULL, PAIR_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pair_need(pair->memory[side] != MAP_FAILED, "memory");
    pair->mr[side] = ibv_reg_mr(pair->pd, pair->memory[side], PAIR_MEMORY, access);
    pair_need(pair->mr[side], "a memory region");
}

void pair_open(struct pair *pair, const struct pair_options *given)
{
    struct pair_options options = *given;
    options.send_wr = options.send_wr ? options.send_wr : 64;
    options.recv_wr = options.recv_wr ? options.recv_wr : 64;
    options.sge = options.sge ? options.sge : 4;
    *pair = (struct pair){.context = NULL};
    open_device(pair);
    if (options.srq) {
        struct ibv_srq_init_attr attr = {.attr = {.max_wr = options.recv_wr, .max_sge = options.sge}};
        pair->srq = ibv_create_srq(pair->pd, &attr);
        pair_need(pair->srq, "a shared receive queue");
    }
    for (int side = 0; side < 2; side++) {
        make_memory(pair, side);
        make_cq(pair, options.family, &pair->poller[side]);
        make_qp(pair, side, &options);
    }
    connect_qp(pair, pair->qp[0], pair->qp[1]);
    connect_qp(pair, pair->qp[1], pair->qp[0]);
}

void pair_close(struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        pair_need(ibv_destroy_qp(pair->qp[side]) == 0, "ibv_destroy_qp");
    pair_need(!pair->srq || ibv_destroy_srq(pair->srq) == 0, "ibv_destroy_srq");
    for (int side = 0; side < 2; side++) {
        pair_need(ibv_destroy_cq(pair->poller[side].cq) == 0, "ibv_destroy_cq");
        pair_need(ibv_dereg_mr(pair->mr[side]) == 0, "ibv_dereg_mr");
        munmap(pair->memory[side], PAIR_MEMORY);
    }
    pair_need(ibv_dealloc_pd(pair->pd) == 0, "ibv_dealloc_pd");
    pair_need(ibv_close_device(pair->context) == 0, "ibv_close_device");
}

struct ibv_sge pair_sge(const struct pair *pair, int side, size_t offset, uint32_t length)
{
    return (struct ibv_sge){.addr = (uintptr_t)pair->memory[side] + offset, .length = length, .lkey = pair->mr[side]->lkey};
}

struct ibv_wc pair_wait(const struct pair *pair, int side)
{
    struct ibv_wc wc;
    const time_t deadline = time(NULL) + PAIR_DEADLINE_S;
    int count;
    while ((count = zc_poll(&pair->poller[side], 1, &wc)) == 0)
        if (time(NULL) > deadline) {
            errno = ETIMEDOUT;
            break;
        }
    pair_need(count == 1, "a completion");
    return wc;
}
