/* Shared receive queues: a ring that the application fills under the SRQ's spinlock and the device thread empties. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft.h"

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p <<= 1;
    return p;
}

ZS_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_attr *a = &attr->attr;
    if (!zs_usable())
        return NULL;
    if (!a->max_wr || a->max_wr > ZS_MAX_WR || a->max_sge > ZS_MAX_SGE) {
        errno = EINVAL;
        return NULL;
    }
    struct zs_srq *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->size = power_of_two(a->max_wr);
    s->mask = s->size - 1;
    s->max_sge = a->max_sge ? a->max_sge : 1;
    s->ring = calloc(s->size, sizeof *s->ring);
    s->sges = calloc((size_t)s->size * s->max_sge, sizeof *s->sges);
    if (!s->ring || !s->sges) {
        free(s->ring);
        free(s->sges);
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    s->srq.context = pd->context;
    s->srq.pd = pd;
    s->srq.srq_context = attr->srq_context;
    pthread_mutex_init(&s->srq.mutex, NULL);
    pthread_cond_init(&s->srq.cond, NULL);
    zs_lock();
    s->number = ++zs_dev.srq_numbers;
    zs_unlock();
    s->srq.handle = s->number;
    atomic_fetch_add(&zs_container(pd, struct zs_pd, pd)->users, 1);
    a->max_wr = s->size;
    a->max_sge = s->max_sge;
    return &s->srq;
}

ZS_EXPORT int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
    struct zs_srq *s = zs_srq(ibsrq);
    if (mask & IBV_SRQ_MAX_WR)
        return EOPNOTSUPP;
    if (mask & IBV_SRQ_LIMIT) {
        if (attr->srq_limit >= s->size)
            return EINVAL;
        atomic_store(&s->limit, attr->srq_limit);
    }
    return 0;
}

ZS_EXPORT int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
    struct zs_srq *s = zs_srq(ibsrq);
    attr->max_wr = s->size;
    attr->max_sge = s->max_sge;
    attr->srq_limit = atomic_load(&s->limit);
    return 0;
}

int zs_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
    *num = zs_srq(srq)->number;
    return 0;
}

ZS_EXPORT int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
    struct zs_srq *s = zs_srq(ibsrq);
    zs_lock();
    if (s->users) {
        zs_unlock();
        return EBUSY;
    }
    zs_async_forget(ibsrq->context, ibsrq);
    zs_unlock();
    pthread_mutex_lock(&ibsrq->mutex);
    while (ibsrq->events_completed != s->async_events_given)
        pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
    pthread_mutex_unlock(&ibsrq->mutex);
    atomic_fetch_sub(&zs_container(ibsrq->pd, struct zs_pd, pd)->users, 1);
    pthread_mutex_destroy(&ibsrq->mutex);
    pthread_cond_destroy(&ibsrq->cond);
    free(s->ring);
    free(s->sges);
    free(s);
    return 0;
}

int zs_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct zs_srq *s = zs_srq(ibsrq);
    int e = 0;
    zs_spin_lock(&s->lock);
    uint32_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&s->head, memory_order_acquire);
    for (; wr; wr = wr->next, tail++) {
        e = tail - head >= s->size ? ENOMEM
                                   : zs_rwqe_fill(&s->ring[tail & s->mask], &s->sges[(size_t)(tail & s->mask) * s->max_sge], wr, s->max_sge);
        if (e) {
            *bad = wr;
            break;
        }
    }
    atomic_store_explicit(&s->tail, tail, memory_order_release);
    zs_spin_unlock(&s->lock);
    return e;
}
