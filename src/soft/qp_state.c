/* The states of a queue pair: which transitions exist, which attributes each demands and allows (InfiniBand
 * specification, 11.2.5.2), and what a transition does to the queues. */
#include <errno.h>
#include <string.h>

#include "soft.h"

struct transition {
    enum ibv_qp_state from, to;
    int required, optional;
};

static const struct transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_MAX_QP_RD_ATOMIC |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH},
};

/* Timer codes of an RNR NAK in units of 10 us (InfiniBand specification, table 45). 0 is the longest. */
uint64_t zs_rnr_ns(unsigned int code)
{
    static const uint32_t units[32] = {65536, 1,   2,   3,   4,   6,   8,    12,   16,   24,   32,   48,   64,    96,    128,   192,
                                       256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return (uint64_t)units[code & 31] * 10000u;
}

static const struct transition *find(enum ibv_qp_state from, enum ibv_qp_state to)
{
    static const struct transition always = {.required = 0, .optional = 0};
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return &always;
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
        if (transitions[i].from == from && transitions[i].to == to)
            return &transitions[i];
    return NULL;
}

static int check_values(const struct ibv_qp_attr *a, int mask)
{
    const struct zs_gid *gids;
    if (mask & IBV_QP_PKEY_INDEX && a->pkey_index)
        return EINVAL;
    if (mask & IBV_QP_PORT && a->port_num != 1)
        return EINVAL;
    if (mask & IBV_QP_ACCESS_FLAGS && a->qp_access_flags & ~(unsigned int)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))
        return EINVAL;
    if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
        return EINVAL;
    if (mask & IBV_QP_AV && (!a->ah_attr.is_global || a->ah_attr.port_num != 1 ||
                             a->ah_attr.grh.sgid_index >= (unsigned int)zs_gids(&gids)))
        return EINVAL; /* Ethernet addresses by GID only */
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > ZS_MAX_RD_ATOMIC)
        return EINVAL;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > ZS_MAX_RD_ATOMIC)
        return EINVAL;
    if ((mask & IBV_QP_TIMEOUT && a->timeout > 31) || (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) ||
        (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7) || (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31))
        return EINVAL;
    if (mask & IBV_QP_DEST_QPN && a->dest_qp_num > ZS_PSN_MASK)
        return EINVAL;
    if (mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))
        return EOPNOTSUPP;
    return 0;
}

static void take_values(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
    if (mask & IBV_QP_PKEY_INDEX)
        to->pkey_index = a->pkey_index;
    if (mask & IBV_QP_PORT)
        to->port_num = a->port_num;
    if (mask & IBV_QP_ACCESS_FLAGS)
        to->qp_access_flags = a->qp_access_flags;
    if (mask & IBV_QP_AV)
        to->ah_attr = a->ah_attr;
    if (mask & IBV_QP_PATH_MTU)
        to->path_mtu = a->path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        to->dest_qp_num = a->dest_qp_num;
    if (mask & IBV_QP_RQ_PSN)
        to->rq_psn = a->rq_psn & ZS_PSN_MASK;
    if (mask & IBV_QP_SQ_PSN)
        to->sq_psn = a->sq_psn & ZS_PSN_MASK;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        to->max_rd_atomic = a->max_rd_atomic;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        to->max_dest_rd_atomic = a->max_dest_rd_atomic;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        to->min_rnr_timer = a->min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT)
        to->timeout = a->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        to->retry_cnt = a->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        to->rnr_retry = a->rnr_retry;
    if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
        to->en_sqd_async_notify = a->en_sqd_async_notify;
}

/* Everything posted vanishes without completions, and so do completions not yet polled. */
static void reset(struct zs_qp *qp)
{
    zs_unready(qp);
    zs_link_detach(qp);
    zs_timer_clear(&qp->timer);
    zs_timer_clear(&qp->model_timer);
    zs_cq_purge(qp->send_cq, qp);
    if (qp->recv_cq != qp->send_cq)
        zs_cq_purge(qp->recv_cq, qp);
    zs_spin_lock(&qp->sq_lock);
    qp->sq_ack = qp->sq_next = atomic_load(&qp->sq_tail);
    atomic_store(&qp->sq_free, qp->sq_ack);
    zs_spin_unlock(&qp->sq_lock);
    zs_spin_lock(&qp->rq_lock);
    qp->rq_head = atomic_load(&qp->rq_tail);
    atomic_store(&qp->rq_free, qp->rq_head);
    zs_spin_unlock(&qp->rq_lock);
    qp->send_off = qp->recv_off = qp->rd_outstanding = 0;
    qp->send_failed = false;
    qp->wait = ZS_WAIT_NONE;
    qp->peer_instance = qp->direct_slot = 0;
    qp->no_direct = false;
    memset(&qp->direct_qp, 0, sizeof qp->direct_qp);
    memset(&qp->direct_mr, 0, sizeof qp->direct_mr);
    qp->msg_active = qp->nak_sent = qp->ack_due = qp->recv_held = qp->established = false;
    qp->msg_off = 0;
    qp->nak_code = ZS_NAK_NONE;
    qp->ans_head = qp->ans_tail = 0;
    memset(&qp->attr, 0, sizeof qp->attr);
}

void zs_qp_set_state(struct zs_qp *qp, enum ibv_qp_state state)
{
    atomic_store(&qp->state, (int)state);
    zs_direct_publish(qp);
}

void zs_qp_error(struct zs_qp *qp, enum ibv_event_type event, bool tell)
{
    if (zs_qp_state(qp) == IBV_QPS_ERR)
        return;
    zs_qp_set_state(qp, IBV_QPS_ERR);
    zs_timer_clear(&qp->timer);
    qp->wait = ZS_WAIT_NONE;
    if (tell)
        zs_async_event(qp->qp.context, event, &qp->qp);
    if (qp->srq) /* its receives stay in the SRQ: nothing more will be consumed on behalf of this QP */
        zs_async_event(qp->qp.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->qp);
    zs_ready(qp); /* to flush */
}

static void enter(struct zs_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
    switch (to) {
    case IBV_QPS_RESET:
        reset(qp);
        break;
    case IBV_QPS_ERR:
        zs_qp_error(qp, IBV_EVENT_QP_FATAL, false);
        return;
    case IBV_QPS_RTR:
        qp->epsn = qp->attr.rq_psn;
        qp->peer_here = !zs_dev.no_shortcut && zs_addr_is_local(qp->attr.ah_attr.grh.dgid.raw) &&
                        zs_is_our_port((uint16_t)(qp->attr.dest_qp_num >> 8));
        break;
    case IBV_QPS_RTS:
        if (from == IBV_QPS_RTR) {
            qp->psn = qp->attr.sq_psn;
            qp->retries_left = qp->attr.retry_cnt;
            qp->rnr_left = qp->attr.rnr_retry;
        }
        break;
    case IBV_QPS_SQD:
        qp->sq_drained_told = false;
        break;
    default:
        break;
    }
    zs_qp_set_state(qp, to);
    zs_ready(qp);
}

int zs_qp_modify(struct zs_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from = (enum ibv_qp_state)zs_qp_state(qp);
    if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
        return EINVAL;
    enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
    const struct transition *t = find(from, to);
    int given = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
    if (!t || (t->required & ~given) || (given & ~(t->required | t->optional)))
        return EINVAL;
    int e = check_values(attr, mask);
    if (e)
        return e;
    take_values(&qp->attr, attr, mask);
    if (mask & IBV_QP_STATE)
        enter(qp, from, to);
    else
        zs_direct_publish(qp);
    return 0;
}

ZS_EXPORT int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
    struct zs_qp *qp = zs_qp(ibqp);
    if (!zs_usable())
        return errno;
    zs_lock();
    int e = zs_qp_modify(qp, attr, mask);
    ibqp->state = (enum ibv_qp_state)zs_qp_state(qp);
    zs_unlock();
    return e;
}
