/* What the files of the responder share: responder.c (listener, rdma_cm events, descriptor), device_events.c (async events),
 * deadlines.c (what happens when nothing happens), session.c (sessions and their QPs), windows.c (their rkeys), messages.c (the shared
 * receive queue and what is said). Private to src/. */
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

/* What may come next stands in messages.c for a message, and in deadlines.c for the time. In every state the session ends with BYE,
 * a disconnection or an error. */
enum session_state {
    SESSION_CONNECTING,     /* QPs are being accepted; HELLO has not come */
    SESSION_PROVING,        /* CHALLENGE has gone, PROOF has not come; only where there is a key */
    SESSION_BINDING,        /* each QP gets its window, one after another; only in ZC_RKEY_SESSION */
    SESSION_READY,          /* WELCOME has gone */
    SESSION_CLOSING,        /* our BYE has gone; its completion or a deadline ends the session */
    SESSION_STATES,
};

enum session_end { END_BYE, END_DISCONNECTED, END_ERROR, END_CLOSED, END_TIMEOUT, END_IDLE, END_UNREACHABLE, END_REFUSED };

struct session_qp {
    struct session_qp *hash_next;
    struct session *session;
    struct rdma_cm_id *id;          /* NULL: not connected; its context points back here */
    uint32_t qp_num;
    struct ibv_mw *mw;              /* NULL: none */
    uint32_t rkey;                  /* of the window, once it is bound */
};

struct session {
    enum session_state state;
    uint64_t id;                    /* ours, never used twice */
    uint32_t slot;                  /* index in responder->sessions, and of its messages */
    char peer[ZC_CM_NAME_MAX];      /* ADDRESS:PORT of the control QP */
    char host[ZC_NAME_MAX];         /* ADDRESS */
    struct auth_session auth;       /* its `session` is chosen by the peer */
    uint64_t created_ns;
    uint64_t deadline_ns;           /* for WELCOME, for the next ALIVE, or for our BYE; UINT64_MAX: none */
    uint64_t probe_ns;              /* READY: when keep-alive is due, or must have been answered; UINT64_MAX: never */
    bool probing;                   /* a keep-alive is on its way */
    uint16_t bye_status;            /* CLOSING: what our BYE said */
    uint32_t credits;               /* messages that it may send before time gives it more */
    uint64_t credited_ns;           /* until when time has given */
    uint32_t outstanding_reads;     /* that a QP answers: smallest over the QPs */
    uint32_t qp_count, accepted, bound;
    struct session_qp qps[];        /* qp_count of them; 0 is the control QP */
};

/* The messages of a session slot that go out. */
struct session_out {
    struct zc_peer_welcome welcome;
    struct zc_peer_message challenge, bye;
};

/* A refusal that was logged, so that the next of its kind within a minute is not. */
struct refusal {
    char host[ZC_NAME_MAX];
    uint16_t status;                /* enum zc_peer_status; 0: free */
    uint64_t until_ns;
};

enum { REFUSALS = 32 };

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
    uint32_t receives;
    struct zc_buffer page;
    struct zc_peer_message *messages;   /* receives of them, of the SRQ */
    struct session_out *outs;           /* max_sessions of them, behind those */
    struct ibv_mr *mr;

    struct session **sessions;          /* max_sessions slots */
    struct session_qp **hash;           /* by qp_num */
    uint32_t hash_mask;

    struct zc_networks allow;
    bool refusing;                      /* everybody: the end has come */
    bool lost;                          /* the device; told once */
    struct refusal refusals[REFUSALS];
};

/* responder.c */
void responder_log(const struct zc_responder *responder, enum zc_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Say BYE with a status and let its completion end the session, if there is anyone to say it to. */
void responder_close(struct zc_responder *responder, struct session *session, uint16_t status);
void responder_closed(struct zc_responder *responder, struct session *session);     /* CLOSING: now it may go */

/* device_events.c */
void device_events_process(struct zc_responder *responder, int budget);     /* those that are pending, at most `budget` */
/* The device is being taken away or is beyond help: all sessions end, and the owner is told once. */
void responder_device_lost(struct zc_responder *responder, bool removed, const char *why);

/* deadlines.c */
void deadlines_expire(struct zc_responder *responder);      /* those that have passed, if the timer has fired */
void deadlines_set(struct zc_responder *responder);         /* the timer, if one has changed */
void session_heard(struct zc_responder *responder, struct session *session);    /* READY: a sign of life: both times begin anew */
void session_probed(struct zc_responder *responder, struct session *session);   /* keep-alive was answered */

/* session.c */
int sessions_create(struct zc_responder *responder, struct zc_error *err);
void sessions_destroy(struct zc_responder *responder);      /* there is no session any more */
void session_request(struct zc_responder *responder, const struct zc_cm_event *event);  /* CONNECT_REQUEST: accept or reject */
struct session_qp *session_find_qp(const struct zc_responder *responder, uint32_t qp_num);
struct session *session_find(const struct zc_responder *responder, uint64_t id);
/* Everything of it is destroyed at once; `why` goes to the log. */
void session_end(struct zc_responder *responder, struct session *session, enum session_end end, const char *why);
/* One warning for a host and a status a minute. */
void session_refused(struct zc_responder *responder, const char *host, uint16_t status, const char *text);

/* windows.c */
/* Post the binding of a new window on QP session->bound; its completion counts that up. 0 or a negative errno. */
int windows_bind(struct zc_responder *responder, struct session *session, uint64_t wr_id);
void windows_free(struct session *session);     /* before its QPs and before the region: from here on their rkeys open nothing */

/* messages.c */
int messages_create(struct zc_responder *responder, struct zc_error *err);
void messages_destroy(struct zc_responder *responder);      /* in any state of creation */
/* Handle at most `budget` completions. true: there may be more. */
bool messages_process(struct zc_responder *responder, int budget);
/* BYE on the control QP. 0 or a negative errno. */
int messages_send_bye(struct zc_responder *responder, struct session *session, uint16_t status);
/* A zero-length RDMA WRITE on the control QP: any NIC answers it, whatever its program does, and no memory is named. */
int messages_send_probe(struct session *session);

#endif
