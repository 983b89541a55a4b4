/* Queue pairs, SRQs and endpoints made through rdma_cm, with the CQs that it makes where the program gives none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static int fail(int e)
{
    errno = e;
    return -1;
}

/* --- completion queues ------------------------------------------------------------------------------------------------------------ */

static void free_cqs(struct rdma_cm_id *id)
{
    if (id->recv_cq)
        ibv_destroy_cq(id->recv_cq);
    if (id->recv_cq_channel)
        ibv_destroy_comp_channel(id->recv_cq_channel);
    if (id->send_cq)
        ibv_destroy_cq(id->send_cq);
    if (id->send_cq_channel)
        ibv_destroy_comp_channel(id->send_cq_channel);
    id->recv_cq = id->send_cq = NULL;
    id->recv_cq_channel = id->send_cq_channel = NULL;
}

static bool make_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
    *channel = ibv_create_comp_channel(id->verbs);
    if (*channel)
        *cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
    return *cq != NULL;
}

static int supply_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
    bool ok = true;
    if (!a->recv_cq && a->cap.max_recv_wr)
        ok = make_cq(id, a->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq);
    if (ok && !a->send_cq && a->cap.max_send_wr)
        ok = make_cq(id, a->cap.max_send_wr, &id->send_cq_channel, &id->send_cq);
    if (!ok)
        return errno;
    if (!a->recv_cq)
        a->recv_cq = id->recv_cq ? id->recv_cq : a->send_cq ? a->send_cq : id->send_cq;
    if (!a->send_cq)
        a->send_cq = id->send_cq ? id->send_cq : a->recv_cq;
    return 0;
}

/* --- queue pairs --------------------------------------------------------------------------------------------------------------------- */

static int to_init(struct zs_id *id, struct zs_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT};
    int mask;
    zs_lock();
    int e = zs_cm_qp_attr(id, IBV_QPS_INIT, &a, &mask);
    if (!e)
        e = zs_qp_modify(qp, &a, mask);
    if (!e) {
        qp->qp.state = IBV_QPS_INIT;
        qp->cm_id = id;
        id->zqp = qp;
    }
    zs_unlock();
    return e;
}

ZS_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (!id->verbs || id->qp)
        return fail(EINVAL);
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = id->pd;
    }
    if (!attr->pd || attr->pd->context != id->verbs)
        return fail(EINVAL); /* a PD of another context is another device as far as rdma_cm knows */
    struct ibv_cq *given_send = attr->send_cq, *given_recv = attr->recv_cq;
    if (!attr->srq)
        attr->srq = id->srq;
    int e = supply_cqs(id, attr);
    struct ibv_qp *qp = NULL;
    if (!e) {
        qp = zs_create_qp_ex(id->verbs, attr);
        e = qp ? to_init(zs_id(id), zs_qp(qp)) : errno;
    }
    if (e) {
        if (qp)
            ibv_destroy_qp(qp);
        free_cqs(id);
        attr->send_cq = given_send;
        attr->recv_cq = given_recv;
        return fail(e);
    }
    id->pd = attr->pd;
    id->qp = qp;
    return 0;
}

ZS_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd ? pd : id->pd,
    };
    int r = rdma_create_qp_ex(id, &ex);
    if (r == 0) {
        attr->cap = ex.cap;
        attr->send_cq = ex.send_cq;
        attr->recv_cq = ex.recv_cq;
        attr->srq = ex.srq;
    }
    return r;
}

ZS_EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
    if (id->qp)
        ibv_destroy_qp(id->qp);
    id->qp = NULL;
    free_cqs(id);
}

/* --- shared receive queues ------------------------------------------------------------------------------------------------------------- */

ZS_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
ZS_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    struct ibv_srq_init_attr a = {.srq_context = attr->srq_context, .attr = attr->attr};
    struct ibv_pd *pd = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && attr->pd ? attr->pd : id->pd;
    if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)
        return fail(EOPNOTSUPP);
    if (!id->verbs || !pd || pd->context != id->verbs || id->srq)
        return fail(EINVAL);
    id->srq = ibv_create_srq(pd, &a);
    if (!id->srq)
        return -1;
    attr->attr = a.attr;
    id->pd = pd;
    return 0;
}

ZS_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
ZS_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex ex = {
        .srq_context = attr->srq_context, .attr = attr->attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd};
    int r = rdma_create_srq_ex(id, &ex);
    if (r == 0)
        attr->attr = ex.attr;
    return r;
}

ZS_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id);
ZS_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
    if (id->srq)
        ibv_destroy_srq(id->srq);
    id->srq = NULL;
}

/* --- endpoints ----------------------------------------------------------------------------------------------------------------------------- */

static int endpoint_passive(struct zs_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                            const struct ibv_qp_init_attr *attr)
{
    if (rdma_bind_addr(&id->id, res->ai_src_addr))
        return -1;
    if (!attr)
        return 0;
    id->ep_attr = malloc(sizeof *attr);
    if (!id->ep_attr)
        return fail(ENOMEM);
    *id->ep_attr = *attr;
    id->ep_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    id->ep_pd = pd;
    return 0;
}

static int endpoint_active(struct zs_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                           struct ibv_qp_init_attr *attr)
{
    if (rdma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr, 2000) || rdma_resolve_route(&id->id, 2000))
        return -1;
    if (attr) {
        attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
        if (rdma_create_qp(&id->id, pd, attr))
            return -1;
    }
    if (res->ai_connect_len > sizeof id->connect_data)
        return fail(EINVAL);
    if (res->ai_connect_len)
        memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
    id->connect_len = (uint8_t)res->ai_connect_len;
    return 0;
}

ZS_EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *id;
    if (res->ai_qp_type && res->ai_qp_type != IBV_QPT_RC)
        return fail(EOPNOTSUPP);
    if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space))
        return -1;
    int r = res->ai_flags & RAI_PASSIVE ? endpoint_passive(zs_id(id), res, pd, attr)
                                        : endpoint_active(zs_id(id), res, pd, attr);
    if (r) {
        int e = errno;
        rdma_destroy_ep(id);
        return fail(e);
    }
    *out = id;
    return 0;
}

ZS_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    if (id->srq)
        rdma_destroy_srq(id);
    rdma_destroy_id(id);
}

ZS_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
    struct zs_id *l = zs_id(listen);
    struct rdma_cm_event *ev;
    if (!l->sync)
        return fail(EINVAL);
    if (listen->event) {
        rdma_ack_cm_event(listen->event);
        listen->event = NULL;
    }
    if (rdma_get_cm_event(listen->channel, &ev))
        return -1;
    struct rdma_cm_id *id = ev->id;
    int e = 0;
    if (ev->status)
        e = ev->status < 0 ? -ev->status : EIO;
    else if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
        e = EINVAL;
    if (!e && l->ep_attr) {
        struct ibv_qp_init_attr a = *l->ep_attr;
        if (rdma_create_qp(id, l->ep_pd, &a))
            e = errno;
    }
    if (!e && rdma_migrate_id(id, NULL)) {
        e = errno;
        rdma_destroy_qp(id);
    }
    if (e) {
        listen->event = ev;
        if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            rdma_reject(id, NULL, 0);
            rdma_destroy_id(id);
        }
        return fail(e);
    }
    id->event = ev; /* the request's private data stay readable */
    *out = id;
    return 0;
}
