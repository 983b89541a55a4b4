/* Event channels of rdma_cm: an eventfd that counts, and a list that says what. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cm.h"

struct zs_event_channel *zs_event_channel_new(void)
{
    if (!zs_usable())
        return NULL;
    struct zs_event_channel *ch = calloc(1, sizeof *ch);
    if (!ch)
        return NULL;
    ch->ch.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (ch->ch.fd < 0) {
        free(ch);
        return NULL;
    }
    zs_list_init(&ch->pending);
    return ch;
}

void zs_event_channel_free(struct zs_event_channel *ch)
{
    close(ch->ch.fd);
    free(ch);
}

ZS_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct zs_event_channel *ch = zs_event_channel_new();
    return ch ? &ch->ch : NULL;
}

ZS_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    zs_event_channel_free(zs_container(channel, struct zs_event_channel, ch));
}

/* --- making events; dev.lock held ------------------------------------------------------------------------------------------- */

struct zs_event *zs_event_new(struct zs_id *id, enum rdma_cm_event_type type, int status)
{
    struct zs_event *e = calloc(1, sizeof *e);
    if (!e)
        return NULL; /* the program's own deadline has to help: there is nothing to tell it with */
    e->ev.id = &id->id;
    e->ev.event = type;
    e->ev.status = status;
    e->counted = id;
    zs_list_init(&e->link);
    return e;
}

void zs_event_private(struct zs_event *e, const void *data, uint8_t length)
{
    memcpy(e->private_data, data, length);
    e->ev.param.conn.private_data = e->private_data;
    e->ev.param.conn.private_data_len = length;
}

static void count_up(struct zs_event_channel *ch)
{
    uint64_t one = 1;
    if (write(ch->ch.fd, &one, sizeof one) < 0)
        errno = 0;
}

static void count_down(struct zs_event_channel *ch)
{
    struct pollfd p = {.fd = ch->ch.fd, .events = POLLIN};
    uint64_t count;
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && read(ch->ch.fd, &count, sizeof count) < 0)
        errno = 0;
}

void zs_event_send(struct zs_event *e, struct zs_event_channel *ch)
{
    zs_list_add(&ch->pending, &e->link);
    count_up(ch);
}

void zs_event_post(struct zs_id *id, enum rdma_cm_event_type type, int status)
{
    struct zs_event *e = zs_event_new(id, type, status);
    if (e)
        zs_event_send(e, id->channel);
}

void zs_events_move(struct zs_id *id, struct zs_event_channel *to)
{
    for (struct zs_list *l = id->channel->pending.next, *n; l != &id->channel->pending; l = n) {
        struct zs_event *e = zs_container(l, struct zs_event, link);
        n = l->next;
        if (e->counted != id && e->ev.id != &id->id)
            continue;
        zs_list_del(l);
        count_down(id->channel);
        zs_event_send(e, to);
    }
}

void zs_events_drop(struct zs_id *id)
{
    for (struct zs_list *l = id->channel->pending.next, *n; l != &id->channel->pending; l = n) {
        struct zs_event *e = zs_container(l, struct zs_event, link);
        n = l->next;
        if (e->counted != id && e->ev.id != &id->id)
            continue;
        zs_list_del(l);
        count_down(id->channel);
        if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST && e->counted == id) { /* the new id dies unseen with its listener */
            struct zs_cm_msg rej = {.type = ZS_CM_REJ, .status = ZS_REJ_CONSUMER_DEFINED};
            struct zs_id *child = zs_id(e->ev.id);
            if (child->conn) {
                zs_conn_send(child->conn, &rej);
                zs_conn_close(child->conn);
            }
            zs_id_free(child);
        }
        free(e);
    }
}

/* --- fetching and acknowledging ------------------------------------------------------------------------------------------------ */

/* A request that is fetched makes room in its listener's backlog. */
static void fetched(struct zs_event *e)
{
    if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST && e->counted->port)
        e->counted->port->waiting--;
    pthread_mutex_lock(&e->counted->ack_lock);
    e->counted->events_given++;
    pthread_mutex_unlock(&e->counted->ack_lock);
}

ZS_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct zs_event_channel *ch = zs_container(channel, struct zs_event_channel, ch);
    struct zs_event *e = NULL;
    if (!event) {
        errno = EINVAL;
        return -1;
    }
    while (!e) {
        uint64_t count;
        if (read(channel->fd, &count, sizeof count) < 0)
            return -1;
        zs_lock();
        if (!zs_list_empty(&ch->pending)) {
            e = zs_container(ch->pending.next, struct zs_event, link);
            zs_list_del(&e->link);
            fetched(e);
        }
        zs_unlock();
    }
    *event = &e->ev;
    return 0;
}

ZS_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    if (!event) {
        errno = EINVAL;
        return -1;
    }
    struct zs_event *e = zs_container(event, struct zs_event, ev);
    struct zs_id *id = e->counted;
    free(e); /* first: the id may be gone as soon as it is counted */
    pthread_mutex_lock(&id->ack_lock);
    id->events_acked++;
    pthread_cond_signal(&id->ack_cond);
    pthread_mutex_unlock(&id->ack_lock);
    return 0;
}

void zs_events_wait_acked(struct zs_id *id)
{
    pthread_mutex_lock(&id->ack_lock);
    while (id->events_acked != id->events_given)
        pthread_cond_wait(&id->ack_cond, &id->ack_lock);
    pthread_mutex_unlock(&id->ack_lock);
}

int zs_event_wait(struct rdma_cm_id *id)
{
    if (id->event) {
        rdma_ack_cm_event(id->event);
        id->event = NULL;
    }
    if (rdma_get_cm_event(id->channel, &id->event))
        return -1;
    if (!id->event->status)
        return 0;
    int status = id->event->status;
    errno = id->event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : status < 0 ? -status : status;
    return -1;
}
