/* rdma_getaddrinfo(): names to addresses, by way of getaddrinfo(). */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
    *to = malloc(len);
    if (!*to)
        return ENOMEM;
    memcpy(*to, from, len);
    *to_len = len;
    return 0;
}

/* Errors as getaddrinfo() has them; EAI_SYSTEM with errno becomes -1. */
static int lookup(const char *node, const char *service, const struct rdma_addrinfo *hints, bool passive,
                  struct addrinfo **found)
{
    struct addrinfo h = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    if (hints && hints->ai_flags & RAI_NUMERICHOST)
        h.ai_flags |= AI_NUMERICHOST;
    if (hints && (hints->ai_flags & RAI_FAMILY || hints->ai_family))
        h.ai_family = hints->ai_family;
    return getaddrinfo(node, service, &h, found);
}

/* `a` is NULL where only the hints have addresses. */
static int fill(struct rdma_addrinfo *r, const struct addrinfo *a, const struct rdma_addrinfo *hints)
{
    bool passive = hints && hints->ai_flags & RAI_PASSIVE;
    int e = 0;
    if (a)
        e = passive ? copy_addr(&r->ai_src_addr, &r->ai_src_len, a->ai_addr, a->ai_addrlen)
                    : copy_addr(&r->ai_dst_addr, &r->ai_dst_len, a->ai_addr, a->ai_addrlen);
    else if (hints->ai_dst_len)
        e = copy_addr(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
    if (!e && !r->ai_src_len && hints && hints->ai_src_len)
        e = copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
    r->ai_family = a ? a->ai_family : r->ai_dst_len ? r->ai_dst_addr->sa_family : r->ai_src_addr->sa_family;
    r->ai_flags = hints ? hints->ai_flags : 0;
    r->ai_qp_type = hints && hints->ai_qp_type ? hints->ai_qp_type : IBV_QPT_RC;
    r->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : RDMA_PS_TCP;
    return e;
}

ZS_EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                               struct rdma_addrinfo **res)
{
    struct addrinfo *found = NULL;
    bool passive = hints && hints->ai_flags & RAI_PASSIVE;
    if (!node && !service && (!hints || (!hints->ai_src_len && !hints->ai_dst_len))) {
        errno = EINVAL;
        return -1;
    }
    struct rdma_addrinfo *r = calloc(1, sizeof *r);
    if (!r)
        return -1;
    int e = node || service ? lookup(node, service, hints, passive, &found) : 0;
    if (e) {
        free(r);
        return e == EAI_SYSTEM ? -1 : e;
    }
    e = fill(r, found, hints);
    if (found)
        freeaddrinfo(found);
    if (e) {
        rdma_freeaddrinfo(r);
        errno = e;
        return -1;
    }
    *res = r;
    return 0;
}

ZS_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *r)
{
    while (r) {
        struct rdma_addrinfo *next = r->ai_next;
        free(r->ai_src_addr);
        free(r->ai_dst_addr);
        free(r->ai_src_canonname);
        free(r->ai_dst_canonname);
        free(r->ai_route);
        free(r->ai_connect);
        free(r);
        r = next;
    }
}
