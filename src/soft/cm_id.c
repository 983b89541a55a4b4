/* Ids of rdma_cm: creating, binding, resolving, options, moving to another channel, destroying. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"

static int fail(int e)
{
    errno = e;
    return -1;
}

/* --- addresses --------------------------------------------------------------------------------------------------------------- */

int zs_sockaddr_get(const struct sockaddr *sa, struct zs_addr *a, uint16_t *port)
{
    memset(a, 0, sizeof *a);
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)sa;
        a->ip[10] = a->ip[11] = 0xff;
        memcpy(a->ip + 12, &in->sin_addr, 4);
        *port = ntohs(in->sin_port);
        return 0;
    }
    if (sa->sa_family != AF_INET6)
        return EAFNOSUPPORT;
    const struct sockaddr_in6 *in6 = (const void *)sa;
    memcpy(a->ip, &in6->sin6_addr, 16);
    a->scope = in6->sin6_scope_id;
    *port = ntohs(in6->sin6_port);
    return 0;
}

void zs_sockaddr_put(struct sockaddr_storage *to, const struct zs_addr *a, uint16_t port)
{
    memset(to, 0, sizeof *to);
    if (zs_addr_is_v4(a->ip)) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, a->ip + 12, 4);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        in6->sin6_scope_id = a->scope;
        memcpy(&in6->sin6_addr, a->ip, 16);
    }
}

/* --- the device of all ids ------------------------------------------------------------------------------------------------------ */

static struct ibv_context *cm_context;
static struct ibv_pd *cm_pd;
static pthread_once_t cm_once = PTHREAD_ONCE_INIT;

static void cm_open(void)
{
    cm_context = zs_context_open();
    if (cm_context)
        cm_pd = ibv_alloc_pd(cm_context);
}

struct ibv_context *zs_cm_verbs(void)
{
    pthread_once(&cm_once, cm_open);
    return cm_pd ? cm_context : NULL;
}

void zs_id_has_device(struct zs_id *id)
{
    id->id.verbs = cm_context; /* opened before the first id exists */
    id->id.pd = cm_pd;
    id->id.port_num = 1;
}

ZS_EXPORT struct ibv_context **rdma_get_devices(int *num)
{
    struct ibv_context **list = calloc(2, sizeof *list);
    struct ibv_context *c = zs_usable() ? zs_cm_verbs() : NULL;
    if (!list || !c) {
        free(list);
        return NULL;
    }
    list[0] = c;
    if (num)
        *num = 1;
    return list;
}

ZS_EXPORT void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}

/* --- life --------------------------------------------------------------------------------------------------------------------------- */

struct zs_id *zs_id_new(struct zs_event_channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type)
{
    struct zs_id *id = calloc(1, sizeof *id);
    if (!id)
        return NULL;
    id->channel = ch;
    id->id.channel = &ch->ch;
    id->id.context = context;
    id->id.ps = ps;
    id->id.qp_type = type;
    id->local_psn = (uint32_t)(zs_now_ns() >> 4) & ZS_PSN_MASK;
    zs_list_init(&id->timewait.link);
    pthread_mutex_init(&id->ack_lock, NULL);
    pthread_cond_init(&id->ack_cond, NULL);
    return id;
}

void zs_id_free(struct zs_id *id)
{
    pthread_mutex_destroy(&id->ack_lock);
    pthread_cond_destroy(&id->ack_cond);
    free(id->ep_attr);
    free(id->id.route.path_rec);
    free(id);
}

ZS_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
                             enum rdma_port_space ps)
{
    if (!zs_usable())
        return -1;
    if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB)
        return fail(EOPNOTSUPP); /* no datagrams on this device */
    if (!zs_cm_verbs())
        return fail(ENODEV);
    struct zs_event_channel *ch = channel ? zs_container(channel, struct zs_event_channel, ch) : zs_event_channel_new();
    if (!ch)
        return -1;
    zs_lock();
    int e = zs_dev_start();
    zs_unlock();
    struct zs_id *id = e ? NULL : zs_id_new(ch, context, ps, IBV_QPT_RC);
    if (!id) {
        if (!channel)
            zs_event_channel_free(ch);
        return fail(e ? e : ENOMEM);
    }
    id->sync = !channel;
    *out = &id->id;
    return 0;
}

/* An established connection that goes without rdma_disconnect() ends for its peer all the same: the stream closes. */
ZS_EXPORT int rdma_destroy_id(struct rdma_cm_id *ibid)
{
    struct zs_id *id = zs_id(ibid);
    if (ibid->event) {
        rdma_ack_cm_event(ibid->event);
        ibid->event = NULL;
    }
    zs_lock();
    zs_timer_clear(&id->timewait);
    zs_cm_unbind(id);
    if (id->conn) {
        struct zs_cm_msg rej = {.type = ZS_CM_REJ, .status = ZS_REJ_CONSUMER_DEFINED};
        struct zs_cm_msg dreq = {.type = ZS_CM_DREQ};
        if (id->state == CM_ESTABLISHED)
            zs_conn_send(id->conn, &dreq);
        else if (id->state != CM_DREQ_SENT)
            zs_conn_send(id->conn, &rej);
        zs_conn_close(id->conn);
    }
    if (id->zqp)
        id->zqp->cm_id = NULL;
    zs_events_drop(id);
    zs_unlock();
    zs_events_wait_acked(id);
    if (id->sync)
        zs_event_channel_free(id->channel);
    zs_id_free(id);
    return 0;
}

ZS_EXPORT int rdma_migrate_id(struct rdma_cm_id *ibid, struct rdma_event_channel *channel)
{
    struct zs_id *id = zs_id(ibid);
    struct zs_event_channel *to = channel ? zs_container(channel, struct zs_event_channel, ch) : NULL;
    if (id->sync && !channel)
        return fail(EINVAL);
    if (!to && !(to = zs_event_channel_new()))
        return -1;
    if (ibid->event) {
        rdma_ack_cm_event(ibid->event);
        ibid->event = NULL;
    }
    zs_lock();
    struct zs_event_channel *from = id->channel;
    zs_events_move(id, to);
    id->channel = to;
    ibid->channel = &to->ch;
    zs_unlock();
    zs_events_wait_acked(id);
    if (id->sync)
        zs_event_channel_free(from);
    id->sync = !channel;
    return 0;
}

/* --- binding and resolving ------------------------------------------------------------------------------------------------------------ */

/* What a program sees in id->route. */
void zs_id_publish_route(struct zs_id *id)
{
    struct rdma_route *r = &id->id.route;
    zs_sockaddr_put(&r->addr.src_storage, &id->src, id->src_port);
    if (!zs_addr_is_any(id->dst.ip))
        zs_sockaddr_put(&r->addr.dst_storage, &id->dst, id->dst_port);
    memcpy(r->addr.addr.ibaddr.sgid.raw, id->src.ip, 16);
    memcpy(r->addr.addr.ibaddr.dgid.raw, id->dst.ip, 16);
    r->addr.addr.ibaddr.pkey = 0xffff;
}

static int bind_locked(struct zs_id *id, const struct sockaddr *sa)
{
    struct zs_addr a;
    uint16_t port;
    int e = zs_sockaddr_get(sa, &a, &port);
    if (!e && id->state != CM_IDLE)
        e = EINVAL;
    if (!e && !zs_addr_is_any(a.ip) && !zs_addr_is_local(a.ip))
        e = EADDRNOTAVAIL;
    if (e)
        return e;
    id->src = a;
    id->src_port = port;
    e = zs_cm_bind(id);
    if (e) {
        id->src_port = 0;
        return e;
    }
    id->state = CM_BOUND;
    if (!zs_addr_is_any(a.ip))
        zs_id_has_device(id);
    zs_id_publish_route(id);
    return 0;
}

ZS_EXPORT int rdma_bind_addr(struct rdma_cm_id *ibid, struct sockaddr *addr)
{
    if (!addr || !zs_usable())
        return fail(addr ? EIO : EINVAL);
    zs_lock();
    int e = bind_locked(zs_id(ibid), addr);
    zs_unlock();
    return e ? fail(e) : 0;
}

ZS_EXPORT int rdma_listen(struct rdma_cm_id *ibid, int backlog)
{
    struct zs_id *id = zs_id(ibid);
    struct sockaddr_in any = {.sin_family = AF_INET};
    int e = 0;
    zs_lock();
    if (id->state == CM_IDLE)
        e = bind_locked(id, (struct sockaddr *)&any);
    if (!e && id->state != CM_BOUND)
        e = EINVAL;
    if (!e)
        e = zs_cm_listen(id, backlog);
    if (!e)
        id->state = CM_LISTEN;
    zs_unlock();
    return e ? fail(e) : 0;
}

/* The local address that the kernel would send from. A UDP socket that is connected sends nothing. */
static int source_for(const struct zs_addr *dst, struct zs_addr *src)
{
    struct sockaddr_storage s;
    uint16_t port;
    zs_sockaddr_put(&s, dst, 9);
    socklen_t len = s.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int fd = socket(s.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int e = 0;
    if (connect(fd, (struct sockaddr *)&s, len) < 0 || getsockname(fd, (struct sockaddr *)&s, &len) < 0)
        e = errno;
    close(fd);
    return e ? e : zs_sockaddr_get((struct sockaddr *)&s, src, &port);
}

static int resolve_source(struct zs_id *id)
{
    struct zs_addr src;
    if (zs_addr_is_local(id->dst.ip) && id->state != CM_BOUND) {
        id->src = id->dst;
        return 0;
    }
    int e = source_for(&id->dst, &src);
    if (!e && (id->state != CM_BOUND || zs_addr_is_any(id->src.ip)))
        id->src = src;
    return e;
}

static int resolve_locked(struct zs_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
    int e = 0;
    if (id->state != CM_IDLE && id->state != CM_BOUND)
        return EINVAL;
    if (src && id->state == CM_IDLE)
        e = bind_locked(id, src);
    if (!e)
        e = zs_sockaddr_get(dst, &id->dst, &id->dst_port);
    if (e)
        return e;
    if (zs_addr_is_any(id->dst.ip)) { /* this host, as for TCP */
        bool v4 = zs_addr_is_v4(id->dst.ip);
        id->dst = (struct zs_addr){.ip = {[15] = 1}};
        if (v4)
            memcpy(id->dst.ip, (const uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, 16);
    }
    e = resolve_source(id);
    if (e) {
        zs_event_post(id, RDMA_CM_EVENT_ADDR_ERROR, -e);
        return 0;
    }
    if (!id->src_port)
        id->src_port = zs_cm_any_port();
    id->state = CM_ADDR_RESOLVED;
    zs_id_has_device(id);
    zs_id_publish_route(id);
    zs_event_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return 0;
}

ZS_EXPORT int rdma_resolve_addr(struct rdma_cm_id *ibid, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    struct zs_id *id = zs_id(ibid);
    (void)timeout_ms; /* nobody has to be asked */
    if (!dst || !zs_usable())
        return fail(dst ? EIO : EINVAL);
    zs_lock();
    int e = resolve_locked(id, src, dst);
    zs_unlock();
    if (e)
        return fail(e);
    return id->sync ? zs_event_wait(ibid) : 0;
}

static struct ibv_sa_path_rec *path_of(const struct zs_id *id)
{
    struct ibv_sa_path_rec *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    memcpy(p->dgid.raw, id->dst.ip, 16);
    memcpy(p->sgid.raw, id->src.ip, 16);
    p->hop_limit = 64;
    p->reversible = 1;
    p->numb_path = 1;
    p->pkey = 0xffff;
    p->mtu_selector = 2; /* exactly */
    p->mtu = (uint8_t)zs_active_mtu();
    p->rate_selector = 2;
    p->rate = IBV_RATE_2_5_GBPS;
    p->packet_life_time_selector = 2;
    p->packet_life_time = 18;
    return p;
}

ZS_EXPORT int rdma_resolve_route(struct rdma_cm_id *ibid, int timeout_ms)
{
    struct zs_id *id = zs_id(ibid);
    int e = 0;
    (void)timeout_ms;
    zs_lock();
    if (id->state != CM_ADDR_RESOLVED)
        e = EINVAL;
    else if (!(ibid->route.path_rec = path_of(id)))
        e = ENOMEM;
    if (!e) {
        ibid->route.num_paths = 1;
        id->state = CM_ROUTE_RESOLVED;
        zs_event_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    }
    zs_unlock();
    if (e)
        return fail(e);
    return id->sync ? zs_event_wait(ibid) : 0;
}

ZS_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *ibid)
{
    return htons(zs_id(ibid)->src_port);
}

ZS_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *ibid)
{
    return htons(zs_id(ibid)->dst_port);
}

/* --- options ------------------------------------------------------------------------------------------------------------------------- */

static int set_id_option(struct zs_id *id, int name, const void *val, size_t len)
{
    switch (name) {
    case RDMA_OPTION_ID_TOS:
        if (len != sizeof(uint8_t))
            return EINVAL;
        id->tos = *(const uint8_t *)val;
        return 0;
    case RDMA_OPTION_ID_REUSEADDR:
        if (len != sizeof(int))
            return EINVAL;
        id->reuse = *(const int *)val;
        return 0;
    case RDMA_OPTION_ID_AFONLY:
        if (len != sizeof(int) || id->state != CM_IDLE)
            return EINVAL;
        id->afonly = *(const int *)val;
        return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (len != sizeof(uint8_t) || *(const uint8_t *)val > 31)
            return EINVAL;
        id->ack_timeout = *(const uint8_t *)val;
        id->ack_timeout_set = true;
        return 0;
    default:
        return ENOSYS;
    }
}

ZS_EXPORT int rdma_set_option(struct rdma_cm_id *ibid, int level, int optname, void *optval, size_t optlen)
{
    if (level != RDMA_OPTION_ID)
        return fail(EOPNOTSUPP); /* paths are not chosen by hand here */
    zs_lock();
    int e = set_id_option(zs_id(ibid), optname, optval, optlen);
    zs_unlock();
    return e ? fail(e) : 0;
}
