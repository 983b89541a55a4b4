/* Completion channels. The descriptor is an eventfd that counts events (so it works in poll, epoll and with O_NONBLOCK);
 * which CQ an event is for stands in the channel's list. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "soft.h"

ZS_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    if (!zs_usable())
        return NULL;
    struct zs_channel *ch = calloc(1, sizeof *ch);
    if (!ch)
        return NULL;
    ch->ch.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (ch->ch.fd < 0) {
        free(ch);
        return NULL;
    }
    ch->ch.context = c;
    pthread_mutex_init(&ch->lock, NULL);
    zs_list_init(&ch->pending);
    atomic_fetch_add(&zs_ctx(c)->users, 1);
    return &ch->ch;
}

ZS_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibch)
{
    struct zs_channel *ch = zs_container(ibch, struct zs_channel, ch);
    pthread_mutex_lock(&ch->lock);
    bool busy = ibch->refcnt > 0;
    pthread_mutex_unlock(&ch->lock);
    if (busy)
        return EBUSY;
    close(ibch->fd);
    atomic_fetch_sub(&zs_ctx(ibch->context)->users, 1);
    pthread_mutex_destroy(&ch->lock);
    free(ch);
    return 0;
}

void zs_channel_notify(struct zs_cq *cq)
{
    struct zs_channel *ch = zs_container(cq->cq.channel, struct zs_channel, ch);
    uint64_t one = 1;
    pthread_mutex_lock(&ch->lock);
    if (cq->pending++ == 0)
        zs_list_add(&ch->pending, &cq->pending_link);
    if (write(ch->ch.fd, &one, sizeof one) < 0)
        errno = 0; /* the program closed the descriptor under us: its own loss */
    pthread_mutex_unlock(&ch->lock);
}

/* Events not fetched go with their CQ. A reader that took the count already finds the list empty and waits again. */
void zs_channel_forget(struct zs_cq *cq)
{
    if (!cq->cq.channel)
        return;
    struct zs_channel *ch = zs_container(cq->cq.channel, struct zs_channel, ch);
    pthread_mutex_lock(&ch->lock);
    for (; cq->pending; cq->pending--) {
        struct pollfd p = {.fd = ch->ch.fd, .events = POLLIN};
        uint64_t count;
        if (poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && read(ch->ch.fd, &count, sizeof count) < 0)
            break;
    }
    cq->pending = 0;
    zs_list_del(&cq->pending_link);
    pthread_mutex_unlock(&ch->lock);
}

ZS_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **cq, void **cq_context)
{
    struct zs_channel *ch = zs_container(ibch, struct zs_channel, ch);
    struct zs_cq *got = NULL;
    while (!got) {
        uint64_t count;
        ssize_t n = read(ibch->fd, &count, sizeof count);
        if (n < 0)
            return -1; /* EAGAIN, EINTR: as the real one */
        pthread_mutex_lock(&ch->lock);
        if (!zs_list_empty(&ch->pending)) {
            got = zs_container(ch->pending.next, struct zs_cq, pending_link);
            zs_list_del(&got->pending_link);
            if (--got->pending)
                zs_list_add(&ch->pending, &got->pending_link);
            pthread_mutex_lock(&got->cq.mutex);
            got->comp_events_given++;
            pthread_mutex_unlock(&got->cq.mutex);
        }
        pthread_mutex_unlock(&ch->lock);
    }
    *cq = &got->cq;
    *cq_context = got->cq.cq_context;
    return 0;
}

ZS_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    if (!n)
        return;
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
