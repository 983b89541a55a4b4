/* One end of an rdma_cm connection; both ends are usually in one process. */
#ifndef ZC_CONFORMANCE_SIDE_H
#define ZC_CONFORMANCE_SIDE_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "pair.h"

struct side {
    struct rdma_event_channel *ch;
    struct rdma_cm_id *listener, *id;
    struct ibv_cq *cq;
};

struct sockaddr_in side_address(uint16_t port_be); /* of the device: what its first IPv4 GID says */
void side_listen(struct side *s);
void side_resolve(struct side *s, uint16_t port_be); /* up to ROUTE_RESOLVED, with a queue pair */
void side_qp(struct side *s);
struct rdma_cm_event *side_next(struct side *s, enum rdma_cm_event_type type); /* gives up if another comes, or none */
struct rdma_cm_event *side_any(struct side *s, int ms);                        /* NULL: none came */
void side_take(struct side *s, enum rdma_cm_event_type type);
const char *cm_event_name(enum rdma_cm_event_type type); /* without RDMA_CM_EVENT_ */
/* A whole connection: p is what the client asks with, NULL for something usual. */
void side_connect(struct side *server, struct side *client, const struct rdma_conn_param *p);
void side_accept(struct side *server, const struct rdma_conn_param *p); /* the next request, NULL for something usual */

#endif
