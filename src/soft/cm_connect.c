/* Connecting, accepting, rejecting, disconnecting, and what that means for the queue pair. */
#include <errno.h>
#include <string.h>

#include "cm.h"

#define DEFAULT_ACK_TIMEOUT 19 /* what rdma_cm gives on RoCE: 2 s a try */
#define DREP_NS 5000000000u

static int fail(int e)
{
    errno = e;
    return -1;
}

/* --- the queue pair -------------------------------------------------------------------------------------------------------------- */

static int attr_init(struct zs_id *id, struct ibv_qp_attr *a)
{
    a->pkey_index = 0;
    a->port_num = 1;
    a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id->responder_resources)
        a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int attr_rtr(struct zs_id *id, struct ibv_qp_attr *a)
{
    union ibv_gid sgid;
    uint32_t index = 0;
    memcpy(sgid.raw, id->src.ip, 16);
    zs_gid_find(&sgid, &index); /* 127.x.y.z is local without being in the table: index 0 serves */
    a->path_mtu = zs_active_mtu();
    a->dest_qp_num = id->remote_qpn;
    a->rq_psn = id->remote_psn;
    a->max_dest_rd_atomic = id->responder_resources;
    a->min_rnr_timer = 0;
    a->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    memcpy(a->ah_attr.grh.dgid.raw, id->dst.ip, 16);
    a->ah_attr.grh.sgid_index = (uint8_t)index;
    a->ah_attr.grh.hop_limit = 64;
    a->ah_attr.grh.traffic_class = id->tos;
    return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
           IBV_QP_MIN_RNR_TIMER;
}

static int attr_rts(struct zs_id *id, struct ibv_qp_attr *a)
{
    a->timeout = id->ack_timeout_set ? id->ack_timeout : DEFAULT_ACK_TIMEOUT;
    a->retry_cnt = id->retry_count;
    a->rnr_retry = id->rnr_retry_count;
    a->sq_psn = id->local_psn;
    a->max_rd_atomic = id->initiator_depth;
    return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
}

int zs_cm_qp_attr(struct zs_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask)
{
    attr->qp_state = state;
    switch (state) {
    case IBV_QPS_INIT:
        *mask = attr_init(id, attr);
        return 0;
    case IBV_QPS_RTR:
        *mask = attr_rtr(id, attr);
        return 0;
    case IBV_QPS_RTS:
        *mask = attr_rts(id, attr);
        return 0;
    default:
        return EINVAL;
    }
}

/* INIT again first: the rights depend on what was negotiated. */
int zs_cm_qp_up(struct zs_id *id)
{
    static const enum ibv_qp_state steps[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct ibv_qp_attr a = {0};
        int mask, e = zs_cm_qp_attr(id, steps[i], &a, &mask);
        if (!e)
            e = zs_qp_modify(id->zqp, &a, mask);
        if (e)
            return e;
    }
    id->zqp->qp.state = IBV_QPS_RTS;
    return 0;
}

void zs_cm_forget_qp(struct zs_qp *qp)
{
    if (qp->cm_id)
        qp->cm_id->zqp = NULL;
    qp->cm_id = NULL;
}

ZS_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *ibid, struct ibv_qp_attr *attr, int *mask)
{
    zs_lock();
    int e = zs_cm_qp_attr(zs_id(ibid), attr->qp_state, attr, mask);
    zs_unlock();
    return e ? fail(e) : 0;
}

/* --- parameters -------------------------------------------------------------------------------------------------------------------- */

static const struct rdma_conn_param defaults = {.responder_resources = RDMA_MAX_RESP_RES,
                                                .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                                .retry_count = 7,
                                                .rnr_retry_count = 7};

static uint8_t at_most(uint8_t wanted, uint8_t max)
{
    return wanted < max ? wanted : max;
}

static int check_param(const struct rdma_conn_param *p, uint8_t private_max)
{
    if (p->private_data_len > private_max || (p->private_data_len && !p->private_data))
        return EINVAL;
    if (p->responder_resources > ZS_MAX_RD_ATOMIC && p->responder_resources != RDMA_MAX_RESP_RES)
        return EINVAL;
    if (p->initiator_depth > ZS_MAX_RD_ATOMIC && p->initiator_depth != RDMA_MAX_INIT_DEPTH)
        return EINVAL;
    return 0;
}

static void fill_msg(struct zs_cm_msg *m, enum zs_cm_type type, struct zs_id *id, const struct rdma_conn_param *p)
{
    *m = (struct zs_cm_msg){
        .type = (uint8_t)type,
        .port_space = (uint16_t)id->id.ps,
        .initiator_depth = id->initiator_depth,
        .responder_resources = id->responder_resources,
        .retry_count = p->retry_count & 7,
        .rnr_retry_count = p->rnr_retry_count & 7,
        .flow_control = p->flow_control,
        .srq = id->zqp ? id->zqp->srq != NULL : p->srq,
        .qpn = id->zqp ? id->zqp->qp.qp_num : p->qp_num,
        .psn = id->local_psn,
        .src_port = id->src_port,
        .dst_port = id->dst_port,
        .private_len = p->private_data_len,
    };
    memcpy(m->src_addr, id->src.ip, 16);
    memcpy(m->dst_addr, id->dst.ip, 16);
    if (p->private_data_len)
        memcpy(m->private_data, p->private_data, p->private_data_len);
}

/* --- the active side ------------------------------------------------------------------------------------------------------------------ */

static int connect_locked(struct zs_id *id, const struct rdma_conn_param *p)
{
    struct rdma_conn_param param = *p;
    struct zs_cm_msg req;
    if (id->state != CM_ROUTE_RESOLVED)
        return EINVAL;
    if (!param.private_data_len && id->connect_len) {
        param.private_data = id->connect_data;
        param.private_data_len = id->connect_len;
    }
    id->responder_resources = at_most(p->responder_resources, ZS_MAX_RD_ATOMIC);
    id->initiator_depth = at_most(p->initiator_depth, ZS_MAX_RD_ATOMIC);
    id->retry_count = p->retry_count & 7;
    fill_msg(&req, ZS_CM_REQ, id, &param);
    id->state = CM_REQ_SENT;
    int e = zs_conn_open(id, &req);
    if (e)
        id->state = CM_ROUTE_RESOLVED;
    return e;
}

ZS_EXPORT int rdma_connect(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
    struct zs_id *id = zs_id(ibid);
    const struct rdma_conn_param *p = param ? param : &defaults;
    int e = check_param(p, ZS_CM_REQ_PRIVATE);
    if (e || !zs_usable())
        return fail(e ? e : EIO);
    zs_lock();
    e = connect_locked(id, p);
    zs_unlock();
    if (e)
        return fail(e);
    return id->sync ? zs_event_wait(ibid) : 0;
}

ZS_EXPORT int rdma_establish(struct rdma_cm_id *ibid)
{
    struct zs_id *id = zs_id(ibid);
    struct zs_cm_msg rtu = {.type = ZS_CM_RTU};
    int e = 0;
    zs_lock();
    if (id->state != CM_REP_RECEIVED || !id->conn) {
        e = EINVAL;
    } else {
        id->state = CM_ESTABLISHED;
        zs_conn_send(id->conn, &rtu);
    }
    zs_unlock();
    return e ? fail(e) : 0;
}

/* --- the passive side -------------------------------------------------------------------------------------------------------------------- */

/* Where the program leaves a depth open, it gets what the peer offers. */
static uint8_t settle(uint8_t wanted, uint8_t open, uint8_t offered)
{
    return wanted == open ? at_most(offered, ZS_MAX_RD_ATOMIC) : wanted;
}

static int accept_locked(struct zs_id *id, const struct rdma_conn_param *p)
{
    struct zs_cm_msg rep;
    if (id->state != CM_REQ_RECEIVED)
        return EINVAL;
    id->responder_resources = settle(p->responder_resources, RDMA_MAX_RESP_RES, id->responder_resources);
    id->initiator_depth = settle(p->initiator_depth, RDMA_MAX_INIT_DEPTH, id->initiator_depth);
    if (id->zqp) {
        int e = zs_cm_qp_up(id);
        if (e)
            return e;
    }
    if (!id->conn) { /* the peer gave up meanwhile */
        id->state = CM_FAILED;
        zs_event_post(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
        return 0;
    }
    fill_msg(&rep, ZS_CM_REP, id, p);
    id->state = CM_REP_SENT;
    zs_conn_send(id->conn, &rep);
    return 0;
}

ZS_EXPORT int rdma_accept(struct rdma_cm_id *ibid, struct rdma_conn_param *param)
{
    struct zs_id *id = zs_id(ibid);
    const struct rdma_conn_param *p = param ? param : &defaults;
    int e = check_param(p, ZS_CM_REP_PRIVATE);
    if (e || !zs_usable())
        return fail(e ? e : EIO);
    zs_lock();
    e = accept_locked(id, p);
    zs_unlock();
    if (e)
        return fail(e);
    return id->sync ? zs_event_wait(ibid) : 0;
}

ZS_EXPORT int rdma_reject(struct rdma_cm_id *ibid, const void *private_data, uint8_t private_data_len)
{
    struct zs_id *id = zs_id(ibid);
    struct zs_cm_msg rej = {.type = ZS_CM_REJ, .status = ZS_REJ_CONSUMER_DEFINED, .private_len = private_data_len};
    int e = 0;
    if (private_data_len > ZS_CM_REJ_PRIVATE || (private_data_len && !private_data))
        return fail(EINVAL);
    if (private_data_len)
        memcpy(rej.private_data, private_data, private_data_len);
    zs_lock();
    if (id->state != CM_REQ_RECEIVED && id->state != CM_REP_RECEIVED) {
        e = EINVAL;
    } else {
        id->state = CM_FAILED;
        if (id->conn) {
            zs_conn_send(id->conn, &rej);
            zs_conn_close(id->conn);
        }
    }
    zs_unlock();
    return e ? fail(e) : 0;
}

/* The program saw a message before the RTU arrived: as good as the RTU. */
ZS_EXPORT int rdma_notify(struct rdma_cm_id *ibid, enum ibv_event_type event)
{
    struct zs_id *id = zs_id(ibid);
    int e = 0;
    zs_lock();
    if (event != IBV_EVENT_COMM_EST || (id->state != CM_REP_SENT && id->state != CM_ESTABLISHED)) {
        e = EINVAL;
    } else if (id->state == CM_REP_SENT) {
        id->state = CM_ESTABLISHED;
        zs_event_post(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    zs_unlock();
    return e ? fail(e) : 0;
}

/* --- the end ------------------------------------------------------------------------------------------------------------------------------- */

static void drep_late(struct zs_timer *t)
{
    struct zs_id *id = zs_container(t, struct zs_conn, timer)->id;
    if (!id)
        return;
    zs_conn_close(id->conn);
    zs_cm_disconnected(id);
}

static int disconnect_locked(struct zs_id *id)
{
    struct zs_cm_msg dreq = {.type = ZS_CM_DREQ};
    if (id->state < CM_REQ_SENT)
        return EINVAL;
    if (id->zqp)
        zs_qp_error(id->zqp, IBV_EVENT_QP_FATAL, false);
    if (id->conn && (id->state == CM_ESTABLISHED || id->state == CM_REP_SENT || id->state == CM_REP_RECEIVED)) {
        id->state = CM_DREQ_SENT;
        zs_conn_send(id->conn, &dreq);
        zs_timer_set(&id->conn->timer, zs_now_ns() + DREP_NS, drep_late);
    } else if (id->conn && id->state == CM_DISCONNECTED) {
        zs_cm_drep(id);
    }
    return 0;
}

ZS_EXPORT int rdma_disconnect(struct rdma_cm_id *ibid)
{
    struct zs_id *id = zs_id(ibid);
    zs_lock();
    bool waits = id->sync && id->conn && id->state >= CM_REQ_SENT;
    int e = disconnect_locked(id);
    if (!e && id->zqp)
        id->zqp->qp.state = IBV_QPS_ERR;
    zs_unlock();
    if (e)
        return fail(e);
    return waits ? zs_event_wait(ibid) : 0;
}
