/* The one device, contexts on it, protection domains, and asynchronous events. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "model.h"

/* libibverbs keeps its own bookkeeping behind struct ibv_device; whoever reaches there finds zeros. */
static struct {
    struct ibv_device device;
    char behind[1024];
} the_device;
static pthread_once_t device_once = PTHREAD_ONCE_INIT;

static void device_init(void)
{
    const char *name = getenv("ZCSOFT_NAME");
    struct ibv_device *d = &the_device.device;
    d->node_type = IBV_NODE_CA;
    d->transport_type = IBV_TRANSPORT_IB;
    snprintf(d->name, sizeof d->name, "%s", name && *name && !strchr(name, '/') ? name : "zcsoft0");
    snprintf(d->dev_name, sizeof d->dev_name, "zcsoft");
    /* no sysfs: paths that cannot exist, so that programs which look there find nothing rather than somebody else's */
    snprintf(d->dev_path, sizeof d->dev_path, "/nonexistent/%s", d->dev_name);
    snprintf(d->ibdev_path, sizeof d->ibdev_path, "/nonexistent/%s", d->name);
}

struct ibv_device *zs_device(void)
{
    pthread_once(&device_once, device_init);
    return &the_device.device;
}

#undef ibv_get_device_list
ZS_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
    struct ibv_device **list = calloc(2, sizeof *list);
    if (!list) {
        errno = ENOMEM;
        return NULL;
    }
    list[0] = zs_device();
    if (num)
        *num = 1;
    return list;
}

ZS_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

ZS_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

ZS_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    (void)device;
    return -1; /* "index unavailable", as for a kernel without them */
}

/* --- contexts ----------------------------------------------------------------------------------------------------------- */

static void fill_ops(struct zs_context *c)
{
    struct ibv_context_ops *o = &c->v.context.ops;
    o->poll_cq = zs_poll_cq;
    o->req_notify_cq = zs_req_notify_cq;
    o->post_send = zs_post_send;
    o->post_recv = zs_post_recv;
    o->post_srq_recv = zs_post_srq_recv;
    o->alloc_mw = zs_alloc_mw;
    o->dealloc_mw = zs_dealloc_mw;
    o->bind_mw = zs_bind_mw;
    c->v.sz = sizeof c->v;
    c->v.query_port = zs_query_port_len;
    c->v.query_device_ex = zs_query_device_ex;
    c->v.create_qp_ex = zs_create_qp_ex;
    c->v.create_cq_ex = zs_create_cq_ex;
    c->v.get_srq_num = zs_get_srq_num;
    c->v.advise_mr = zs_advise_mr;
    /* what is left NULL is refused with EOPNOTSUPP by the inline functions of verbs.h */
}

struct ibv_context *zs_context_open(void)
{
    if (!zs_usable())
        return NULL;
    if (!zs_model_ready()) {
        errno = EINVAL;
        return NULL;
    }
    struct zs_context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    struct ibv_context *ib = &c->v.context;
    ib->async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    ib->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* programs only ever set flags on it */
    if (ib->async_fd < 0 || ib->cmd_fd < 0) {
        int e = errno;
        if (ib->async_fd >= 0)
            close(ib->async_fd);
        if (ib->cmd_fd >= 0)
            close(ib->cmd_fd);
        free(c);
        errno = e;
        return NULL;
    }
    ib->device = zs_device();
    ib->num_comp_vectors = 1;
    ib->abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&ib->mutex, NULL);
    pthread_mutex_init(&c->async_lock, NULL);
    zs_list_init(&c->async_pending);
    fill_ops(c);
    zs_lock();
    zs_list_add(&zs_dev.contexts, &c->link);
    zs_unlock();
    return ib;
}

ZS_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (device != zs_device()) {
        errno = ENODEV;
        return NULL;
    }
    return zs_context_open();
}

struct zs_async {
    struct zs_list link;
    struct ibv_async_event ev;
};

/* A context with objects still alive stays in memory (and its objects with it), but its descriptors go. */
void zs_context_close(struct ibv_context *ib)
{
    struct zs_context *c = zs_ctx(ib);
    zs_lock();
    zs_list_del(&c->link);
    zs_unlock();
    close(ib->async_fd);
    close(ib->cmd_fd);
    ib->async_fd = ib->cmd_fd = -1;
    if (atomic_load(&c->users))
        return;
    while (!zs_list_empty(&c->async_pending)) {
        struct zs_async *a = zs_container(c->async_pending.next, struct zs_async, link);
        zs_list_del(&a->link);
        free(a);
    }
    pthread_mutex_destroy(&ib->mutex);
    pthread_mutex_destroy(&c->async_lock);
    free(c);
}

ZS_EXPORT int ibv_close_device(struct ibv_context *ib)
{
    zs_context_close(ib);
    return 0;
}

/* --- protection domains ---------------------------------------------------------------------------------------------------- */

ZS_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    static _Atomic uint32_t handles;
    if (!zs_usable())
        return NULL;
    struct zs_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    pd->pd.context = c;
    pd->pd.handle = atomic_fetch_add(&handles, 1);
    atomic_fetch_add(&zs_ctx(c)->users, 1);
    return &pd->pd;
}

ZS_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
    struct zs_pd *pd = zs_container(ibpd, struct zs_pd, pd);
    if (atomic_load(&pd->users))
        return EBUSY;
    atomic_fetch_sub(&zs_ctx(ibpd->context)->users, 1);
    free(pd);
    return 0;
}

/* --- asynchronous events ------------------------------------------------------------------------------------------------------ */

void zs_async_event(struct ibv_context *ib, enum ibv_event_type type, void *element)
{
    struct zs_context *c = zs_ctx(ib);
    struct zs_async *a = calloc(1, sizeof *a);
    uint64_t one = 1;
    if (!a)
        return;
    a->ev.event_type = type;
    a->ev.element.qp = element;
    pthread_mutex_lock(&c->async_lock);
    zs_list_add(&c->async_pending, &a->link);
    if (ib->async_fd >= 0 && write(ib->async_fd, &one, sizeof one) < 0)
        errno = 0;
    pthread_mutex_unlock(&c->async_lock);
}

void zs_async_forget(struct ibv_context *ib, const void *element)
{
    struct zs_context *c = zs_ctx(ib);
    pthread_mutex_lock(&c->async_lock);
    for (struct zs_list *l = c->async_pending.next, *n; l != &c->async_pending; l = n) {
        struct zs_async *a = zs_container(l, struct zs_async, link);
        struct pollfd p = {.fd = ib->async_fd, .events = POLLIN};
        uint64_t count;
        n = l->next;
        if (a->ev.element.qp != element)
            continue;
        zs_list_del(l);
        free(a);
        if (poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && read(ib->async_fd, &count, sizeof count) < 0)
            errno = 0;
    }
    pthread_mutex_unlock(&c->async_lock);
}

enum element { ELEMENT_NONE, ELEMENT_CQ, ELEMENT_QP, ELEMENT_SRQ };

static enum element element_of(enum ibv_event_type t)
{
    switch (t) {
    case IBV_EVENT_CQ_ERR:
        return ELEMENT_CQ;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return ELEMENT_QP;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return ELEMENT_SRQ;
    default:
        return ELEMENT_NONE;
    }
}

static void count_given(const struct ibv_async_event *ev)
{
    switch (element_of(ev->event_type)) {
    case ELEMENT_CQ:
        pthread_mutex_lock(&ev->element.cq->mutex);
        zs_cq(ev->element.cq)->async_events_given++;
        pthread_mutex_unlock(&ev->element.cq->mutex);
        break;
    case ELEMENT_QP:
        pthread_mutex_lock(&ev->element.qp->mutex);
        zs_qp(ev->element.qp)->async_events_given++;
        pthread_mutex_unlock(&ev->element.qp->mutex);
        break;
    case ELEMENT_SRQ:
        pthread_mutex_lock(&ev->element.srq->mutex);
        zs_srq(ev->element.srq)->async_events_given++;
        pthread_mutex_unlock(&ev->element.srq->mutex);
        break;
    case ELEMENT_NONE:
        break;
    }
}

ZS_EXPORT int ibv_get_async_event(struct ibv_context *ib, struct ibv_async_event *event)
{
    struct zs_context *c = zs_ctx(ib);
    struct zs_async *a = NULL;
    while (!a) {
        uint64_t count;
        if (read(ib->async_fd, &count, sizeof count) < 0)
            return -1;
        pthread_mutex_lock(&c->async_lock);
        if (!zs_list_empty(&c->async_pending)) {
            a = zs_container(c->async_pending.next, struct zs_async, link);
            zs_list_del(&a->link);
            count_given(&a->ev);
        }
        pthread_mutex_unlock(&c->async_lock);
    }
    *event = a->ev;
    free(a);
    return 0;
}

static void ack(pthread_mutex_t *m, pthread_cond_t *c, uint32_t *done)
{
    pthread_mutex_lock(m);
    ++*done;
    pthread_cond_signal(c);
    pthread_mutex_unlock(m);
}

ZS_EXPORT void ibv_ack_async_event(struct ibv_async_event *ev)
{
    switch (element_of(ev->event_type)) {
    case ELEMENT_CQ:
        ack(&ev->element.cq->mutex, &ev->element.cq->cond, &ev->element.cq->async_events_completed);
        break;
    case ELEMENT_QP:
        ack(&ev->element.qp->mutex, &ev->element.qp->cond, &ev->element.qp->events_completed);
        break;
    case ELEMENT_SRQ:
        ack(&ev->element.srq->mutex, &ev->element.srq->cond, &ev->element.srq->events_completed);
        break;
    case ELEMENT_NONE:
        break;
    }
}
