/* Creating, destroying and querying queue pairs, and their numbers: 16 bits of a TCP port this process listens on and
 * 8 bits of index, so that a peer finds the process with nothing but the GID and the QP number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define QPS_A_PORT 256u
/* Providers round a send queue up, and programs have come to need it (ib_send_lat -e asks for 1 and posts the second
 * before it polled the first). What there is, is reported, and no more is accepted. */
#define SQ_LEAST 64u

/* --- numbers ------------------------------------------------------------------------------------------------------------ */

static int grow_numbers(void)
{
    uint32_t slots = zs_dev.qp_slots;
    if (slots + QPS_A_PORT > ZS_MAX_QP)
        return ENOMEM;
    if (!zs_listen_port(slots / QPS_A_PORT))
        return errno ? errno : EMFILE;
    struct zs_qp **p = realloc(zs_dev.qps, (slots + QPS_A_PORT) * sizeof(struct zs_qp *));
    if (!p)
        return ENOMEM;
    memset(p + slots, 0, QPS_A_PORT * sizeof(struct zs_qp *));
    zs_dev.qps = p;
    zs_dev.qp_hint = slots;
    zs_dev.qp_slots = slots + QPS_A_PORT;
    return 0;
}

static int number_take(struct zs_qp *qp)
{
    if (zs_dev.qp_count == zs_dev.qp_slots) {
        int e = grow_numbers();
        if (e)
            return e;
    }
    /* round robin: a number rests as long as possible before it names another QP */
    uint32_t i = zs_dev.qp_hint;
    while (zs_dev.qps[i % zs_dev.qp_slots])
        i++;
    i %= zs_dev.qp_slots;
    zs_dev.qps[i] = qp;
    zs_dev.qp_hint = i + 1;
    zs_dev.qp_count++;
    qp->qp.qp_num = (uint32_t)zs_listen_port(i / QPS_A_PORT) << 8 | (i % QPS_A_PORT);
    qp->qp.handle = i;
    return 0;
}

struct zs_qp *zs_qp_by_num(uint32_t qpn)
{
    uint16_t port = (uint16_t)(qpn >> 8);
    for (uint32_t base = 0; base < zs_dev.qp_slots; base += QPS_A_PORT)
        if (zs_listen_port(base / QPS_A_PORT) == port)
            return zs_dev.qps[base + (qpn & 0xff)];
    return NULL;
}

/* --- creating -------------------------------------------------------------------------------------------------------------- */

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p <<= 1;
    return p;
}

static int check_init(const struct ibv_qp_init_attr_ex *a)
{
    const struct ibv_qp_cap *c = &a->cap;
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                         IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
                         IBV_QP_EX_WITH_SEND_WITH_INV;
    if (a->comp_mask & ~known || a->qp_type != IBV_QPT_RC)
        return EOPNOTSUPP;
    if (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags)
        return EOPNOTSUPP;
    if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && a->send_ops_flags & ~ops)
        return EOPNOTSUPP;
    if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq)
        return EINVAL;
    if (c->max_send_wr > ZS_MAX_WR || c->max_recv_wr > ZS_MAX_WR || c->max_send_sge > ZS_MAX_SGE ||
        c->max_recv_sge > ZS_MAX_SGE || c->max_inline_data > ZS_MAX_INLINE)
        return EINVAL;
    return 0;
}

static bool alloc_queues(struct zs_qp *qp, const struct ibv_qp_cap *c)
{
    uint32_t sq = power_of_two(c->max_send_wr < SQ_LEAST ? SQ_LEAST : c->max_send_wr);
    qp->sq_size = sq;
    qp->sq_mask = sq - 1;
    qp->sq_sge_max = c->max_send_sge ? c->max_send_sge : 1;
    qp->inline_max = c->max_inline_data;
    qp->sq = calloc(sq, sizeof *qp->sq);
    qp->sq_sges = calloc((size_t)sq * qp->sq_sge_max, sizeof *qp->sq_sges);
    qp->sq_inline = calloc(sq, qp->inline_max ? qp->inline_max : 1);
    uint32_t rq = qp->srq ? 1 : power_of_two(c->max_recv_wr ? c->max_recv_wr : 1);
    qp->rq_size = qp->srq ? 0 : c->max_recv_wr;
    qp->rq_mask = rq - 1;
    qp->rq_sge_max = c->max_recv_sge ? c->max_recv_sge : 1;
    qp->rq = calloc(rq, sizeof *qp->rq);
    qp->rq_sges = calloc((size_t)rq * qp->rq_sge_max, sizeof *qp->rq_sges);
    if (zs_model.on && !(qp->model_reads = calloc(ZS_MAX_RD_ATOMIC, sizeof *qp->model_reads)))
        return false;
    return qp->sq && qp->sq_sges && qp->sq_inline && qp->rq && qp->rq_sges;
}

static void free_qp(struct zs_qp *qp)
{
    free(qp->sq);
    free(qp->sq_sges);
    free(qp->sq_inline);
    free(qp->rq);
    free(qp->rq_sges);
    free(qp->model_reads);
    pthread_mutex_destroy(&qp->qp.mutex);
    pthread_cond_destroy(&qp->qp.cond);
    free(qp);
}

static void init_lists(struct zs_qp *qp)
{
    zs_list_init(&qp->ready_link);
    zs_list_init(&qp->link_qps);
    zs_list_init(&qp->rlink_qps);
    zs_list_init(&qp->send_cq_link);
    zs_list_init(&qp->recv_cq_link);
    zs_list_init(&qp->timer.link);
    zs_list_init(&qp->model_timer.link);
}

static struct zs_qp *new_qp(struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
    struct zs_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return NULL;
    pthread_mutex_init(&qp->qp.mutex, NULL);
    pthread_cond_init(&qp->qp.cond, NULL);
    init_lists(qp);
    qp->pd = zs_container(a->pd, struct zs_pd, pd);
    qp->send_cq = zs_cq(a->send_cq);
    qp->recv_cq = zs_cq(a->recv_cq);
    qp->srq = a->srq ? zs_srq(a->srq) : NULL;
    qp->sig_all = a->sq_sig_all != 0;
    qp->qp.context = c;
    qp->qp.qp_context = a->qp_context;
    qp->qp.pd = a->pd;
    qp->qp.send_cq = a->send_cq;
    qp->qp.recv_cq = a->recv_cq;
    qp->qp.srq = a->srq;
    qp->qp.qp_type = a->qp_type;
    qp->qp.state = IBV_QPS_RESET;
    if (!alloc_queues(qp, &a->cap)) {
        free_qp(qp);
        return NULL;
    }
    return qp;
}

/* What the queues really hold; at least what was asked for. */
static void report_cap(const struct zs_qp *qp, struct ibv_qp_cap *c)
{
    c->max_send_wr = qp->sq_size;
    c->max_recv_wr = qp->rq_size;
    c->max_send_sge = qp->sq_sge_max;
    c->max_recv_sge = qp->srq ? 0 : qp->rq_sge_max;
    c->max_inline_data = qp->inline_max;
}

struct ibv_qp *zs_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
    int e = check_init(a);
    if (!zs_usable())
        return NULL;
    struct zs_qp *qp = e ? NULL : new_qp(c, a);
    if (!qp) {
        errno = e ? e : ENOMEM;
        return NULL;
    }
    if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        qp->extended = true;
        qp->send_ops = a->send_ops_flags;
        zs_qp_ex_setup(qp);
    }
    zs_guard_install();
    zs_lock();
    e = zs_dev_start();
    if (!e)
        e = number_take(qp);
    if (e) {
        zs_unlock();
        free_qp(qp);
        errno = e;
        return NULL;
    }
    qp->send_cq->users++;
    qp->recv_cq->users++;
    zs_list_add(&qp->send_cq->send_qps, &qp->send_cq_link);
    zs_list_add(&qp->recv_cq->recv_qps, &qp->recv_cq_link);
    if (qp->srq)
        qp->srq->users++;
    zs_unlock();
    atomic_fetch_add(&qp->pd->users, 1);
    report_cap(qp, &qp->cap);
    a->cap = qp->cap;
    return &qp->qp;
}

ZS_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
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
        .pd = pd,
    };
    struct ibv_qp *qp = zs_create_qp_ex(pd->context, &ex);
    if (qp)
        attr->cap = ex.cap;
    return qp;
}

ZS_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibqp)
{
    struct zs_qp *qp = zs_qp(ibqp);
    return qp->extended ? &qp->qp_ex : NULL;
}

/* --- destroying --------------------------------------------------------------------------------------------------------------- */

ZS_EXPORT int ibv_destroy_qp(struct ibv_qp *ibqp)
{
    struct zs_qp *qp = zs_qp(ibqp);
    if (!zs_usable())
        return errno;
    zs_lock();
    zs_cm_forget_qp(qp);
    zs_direct_retract(qp);
    zs_windows_forget_qp(qp); /* its number will be another queue pair's */
    zs_unready(qp);
    zs_responder_run(qp); /* acknowledgements that are still owed: the peer must not take our leaving for a failure */
    zs_list_del(&qp->ready_link);
    zs_link_detach(qp);
    zs_link_flush_dirty();
    zs_timer_clear(&qp->timer);
    zs_timer_clear(&qp->model_timer);
    zs_dev.qps[ibqp->handle] = NULL;
    zs_dev.qp_count--;
    zs_cq_purge(qp->send_cq, qp);
    if (qp->recv_cq != qp->send_cq)
        zs_cq_purge(qp->recv_cq, qp);
    zs_list_del(&qp->send_cq_link);
    zs_list_del(&qp->recv_cq_link);
    qp->send_cq->users--;
    qp->recv_cq->users--;
    if (qp->srq)
        qp->srq->users--;
    zs_async_forget(ibqp->context, ibqp);
    zs_unlock();
    pthread_mutex_lock(&ibqp->mutex);
    while (ibqp->events_completed != qp->async_events_given)
        pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
    pthread_mutex_unlock(&ibqp->mutex);
    atomic_fetch_sub(&qp->pd->users, 1);
    free_qp(qp);
    return 0;
}

/* --- querying ------------------------------------------------------------------------------------------------------------------ */

ZS_EXPORT int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct zs_qp *qp = zs_qp(ibqp);
    (void)mask; /* everything is at hand: all of it is returned */
    zs_lock();
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)zs_qp_state(qp);
    attr->cap = qp->cap;
    attr->sq_draining = attr->qp_state == IBV_QPS_SQD && qp->sq_ack != qp->sq_next;
    ibqp->state = attr->qp_state;
    zs_unlock();
    *init = (struct ibv_qp_init_attr){
        .qp_context = ibqp->qp_context,
        .send_cq = ibqp->send_cq,
        .recv_cq = ibqp->recv_cq,
        .srq = ibqp->srq,
        .cap = qp->cap,
        .qp_type = ibqp->qp_type,
        .sq_sig_all = qp->sig_all,
    };
    return 0;
}

ZS_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0; /* memcpy promises no order */
}
