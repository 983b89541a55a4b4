/* What the three files of the responder share: responder.c (listener, events, descriptor), session.c (sessions and their QPs),
 * messages.c (the shared receive queue, HELLO, WELCOME, BYE). Private to src/. */
#ifndef ZC_RESPONDER_PRIVATE_H
#define ZC_RESPONDER_PRIVATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm.h"
#include "completion.h"
#include "memory.h"
#include "peer.h"
#include "responder.h"

enum session_state {
    SESSION_CONNECTING,     /* QPs are being accepted; HELLO has not come */
    SESSION_READY,          /* WELCOME has gone */
    SESSION_CLOSING,        /* our BYE has gone; its completion or a deadline ends the session */
};

enum session_end { END_BYE, END_DISCONNECTED, END_ERROR, END_TIMEOUT, END_CLOSED };

struct session_qp {
    struct session_qp *hash_next;
    struct session *session;
    struct rdma_cm_id *id;          /* NULL: not connected; its context points back here */
    uint32_t qp_num;
};

struct session {
    enum session_state state;
    uint64_t id;                    /* ours, never used twice */
    uint64_t key;                   /* chosen by the peer */
    uint32_t slot;                  /* index in responder->sessions, and of its messages */
    char peer[ZC_CM_NAME_MAX];      /* ADDRESS:PORT of the control QP */
    char host[ZC_NAME_MAX];         /* ADDRESS */
    uint64_t created_ns;
    uint64_t deadline_ns;           /* for HELLO, or for our BYE; UINT64_MAX: none */
    uint32_t outstanding_reads;     /* that a QP answers: smallest over the QPs */
    uint32_t qp_count, accepted;
    struct session_qp qps[];        /* qp_count of them; 0 is the control QP */
};

struct zc_responder {
    struct zc_responder_params params;
    struct zc_responder_stats stats;
    uint64_t last_id;

    int epoll_fd, timer_fd;
    int again_fd;                   /* readable: one call of zc_responder_process() was not enough */
    int async_fd;                   /* of the device; not ours to close */
    bool deadlines_changed;

    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    uint16_t port;

    struct zc_completion *completion;   /* sends and receives of every session */
    struct ibv_srq *srq;
    uint32_t receives;                  /* messages [0, receives) belong to the SRQ, behind them two a session slot */
    struct zc_buffer page;
    struct zc_peer_message *messages;
    struct ibv_mr *mr;

    struct session **sessions;          /* max_sessions slots */
    struct session_qp **hash;           /* by qp_num */
    uint32_t hash_mask;
};

/* responder.c */
void responder_log(const struct zc_responder *responder, enum zc_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* session.c */
int sessions_create(struct zc_responder *responder, struct zc_error *err);
void sessions_destroy(struct zc_responder *responder);      /* there is no session any more */
void session_request(struct zc_responder *responder, const struct zc_cm_event *event);  /* CONNECT_REQUEST: accept or reject */
struct session_qp *session_find_qp(const struct zc_responder *responder, uint32_t qp_num);
struct session *session_find(const struct zc_responder *responder, uint64_t id);
/* Everything of it is destroyed at once; `why` goes to the log. */
void session_end(struct zc_responder *responder, struct session *session, enum session_end end, const char *why);

/* messages.c */
int messages_create(struct zc_responder *responder, struct zc_error *err);
void messages_destroy(struct zc_responder *responder);      /* in any state of creation */
/* Handle at most `budget` completions. true: there may be more. */
bool messages_process(struct zc_responder *responder, int budget);
/* WELCOME or BYE on the control QP, from the session's own message. 0 or a negative errno. */
int messages_send(struct zc_responder *responder, struct session *session, uint16_t type, uint16_t status);

#endif
