/* Inside rdma_cm: ids, event channels, and the streams that carry connection messages. All of it under dev.lock, except
 * the counting of acknowledged events, which has a mutex in each id. One stream a connection, for as long as the
 * connection lives: its end is the peer's death, and arrives at once. */
#ifndef ZCSOFT_CM_H
#define ZCSOFT_CM_H

#include "soft.h"

enum zs_cm_state {
    CM_IDLE,
    CM_BOUND,
    CM_LISTEN,
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_REQ_SENT,
    CM_REP_RECEIVED, /* the program brings its own QP up and then calls rdma_establish() */
    CM_REQ_RECEIVED,
    CM_REP_SENT,
    CM_ESTABLISHED,
    CM_DREQ_SENT,
    CM_DISCONNECTED,
    CM_FAILED, /* rejected, unreachable */
};

/* Reasons of a REJ, numbered by the IB specification (12.6.7.2). */
enum zs_cm_reason { ZS_REJ_INVALID_SERVICE_ID = 8, ZS_REJ_CONSUMER_DEFINED = 28 };

#define ZS_CM_REQ_PRIVATE 56
#define ZS_CM_REP_PRIVATE 196
#define ZS_CM_REJ_PRIVATE 148
#define ZS_CM_TX_MAX (8 * sizeof(struct zs_cm_msg))

struct zs_event_channel {
    struct rdma_event_channel ch;
    struct zs_list pending; /* struct zs_event, not yet fetched */
};

struct zs_conn {
    struct zs_source src;
    struct zs_timer timer;
    struct zs_id *id; /* NULL: a REQ is awaited, or the rest of the messages is only being sent */
    bool active, local, connecting, hello_seen, closing;
    uint32_t rx_len, tx_head, tx_len;
    uint8_t rx[sizeof(struct zs_cm_msg)];
    uint8_t tx[ZS_CM_TX_MAX];
};

/* The sockets of a bound id. TCP may be missing when another kind of program has the port: on this host it still works. */
struct zs_cm_port {
    struct zs_id *id;
    struct zs_source tcp, local, local_v4;
    bool has_tcp, has_local, has_local_v4, listening;
    struct zs_list bound; /* ids with a port, listening or not */
    struct zs_list all; /* listening ids */
    int backlog;
    int waiting; /* connection requests not yet fetched */
};

struct zs_id {
    struct rdma_cm_id id;
    enum zs_cm_state state;
    bool sync;
    struct zs_event_channel *channel;
    struct zs_addr src, dst;
    uint16_t src_port, dst_port;
    int reuse, afonly;
    uint8_t tos, ack_timeout;
    bool ack_timeout_set;
    struct zs_cm_port *port;
    struct zs_conn *conn;
    struct zs_timer timewait; /* after DISCONNECTED; before it while the event is held back; between two tries to connect */
    uint64_t tell_by_ns;
    struct zs_cm_msg req; /* the active side's */
    struct zs_qp *zqp; /* id.qp as long as it exists, whoever destroys it */
    /* negotiated */
    uint32_t remote_qpn, remote_psn, local_psn;
    uint8_t responder_resources, initiator_depth; /* of our QP */
    uint8_t retry_count, rnr_retry_count;
    bool remote_srq, flow_control;
    /* rdma_create_ep on the passive side: what rdma_get_request gives each new id */
    struct ibv_qp_init_attr *ep_attr;
    struct ibv_pd *ep_pd;
    uint8_t connect_data[ZS_CM_REQ_PRIVATE];
    uint8_t connect_len;
    /* events handed out and acknowledged */
    pthread_mutex_t ack_lock;
    pthread_cond_t ack_cond;
    uint32_t events_given, events_acked;
};

struct zs_event {
    struct rdma_cm_event ev;
    struct zs_list link;
    struct zs_id *counted; /* whose events_acked it raises */
    uint8_t private_data[256];
};

static inline struct zs_id *zs_id(struct rdma_cm_id *id)
{
    return zs_container(id, struct zs_id, id);
}

/* cm_event.c */
struct zs_event *zs_event_new(struct zs_id *id, enum rdma_cm_event_type type, int status);
void zs_event_private(struct zs_event *e, const void *data, uint8_t length);
void zs_event_send(struct zs_event *e, struct zs_event_channel *ch);
void zs_event_post(struct zs_id *id, enum rdma_cm_event_type type, int status); /* the three in one */
void zs_events_move(struct zs_id *id, struct zs_event_channel *to);
void zs_events_drop(struct zs_id *id); /* also rejects requests to a listener that nobody has seen */
int zs_event_wait(struct rdma_cm_id *id);  /* synchronous ids: the next event into id->event, its status as the result */
void zs_events_wait_acked(struct zs_id *id);
struct zs_event_channel *zs_event_channel_new(void);
void zs_event_channel_free(struct zs_event_channel *ch);

/* cm_id.c */
struct zs_id *zs_id_new(struct zs_event_channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type);
void zs_id_free(struct zs_id *id);
struct ibv_context *zs_cm_verbs(void); /* the context of all ids */
void zs_id_has_device(struct zs_id *id);
void zs_id_publish_route(struct zs_id *id);
uint16_t zs_cm_any_port(void);
int zs_sockaddr_get(const struct sockaddr *sa, struct zs_addr *a, uint16_t *port); /* 0 or errno */
void zs_sockaddr_put(struct sockaddr_storage *to, const struct zs_addr *a, uint16_t port);

/* cm_port.c; dev.lock held */
int zs_cm_bind(struct zs_id *id); /* reserves src:src_port, choosing a port for 0 */
int zs_cm_listen(struct zs_id *id, int backlog);
void zs_cm_unbind(struct zs_id *id);
struct zs_id *zs_cm_find_listener(const struct zs_cm_msg *req);
int zs_cm_dial(const struct zs_addr *to, uint16_t port, bool *local); /* fd or -errno */

/* cm_conn.c; dev.lock held */
int zs_conn_open(struct zs_id *id, const struct zs_cm_msg *req);
void zs_conn_send(struct zs_conn *c, const struct zs_cm_msg *m);
void zs_conn_close(struct zs_conn *c); /* after what is queued has been sent */
void zs_cm_disconnected(struct zs_id *id);
void zs_cm_drep(struct zs_id *id); /* answers a DREQ; the stream ends with it */

/* cm_connect.c; dev.lock held */
int zs_cm_qp_attr(struct zs_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask);
int zs_cm_qp_up(struct zs_id *id);

#endif
