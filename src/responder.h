/* The responder's side: an rdma_cm listener and the sessions that it accepted. It never blocks and has no thread: the owner
 * watches one descriptor and calls zc_responder_process() when it is readable. Nothing else is needed: deadlines make the descriptor
 * readable too, and so does work that one call left undone. One owner thread for everything here.
 *
 * It also owns the async events of its device (ibv_get_async_event(3)): whoever else in the process has QPs on the device - this
 * daemon's own requesters - does not read async_fd. Their events are acknowledged here, which ibv_destroy_qp(3) waits for. */
#ifndef ZC_RESPONDER_H
#define ZC_RESPONDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth.h"
#include "device.h"
#include "error.h"
#include "network.h"
#include "region.h"

struct zc_responder;

enum zc_log_level { ZC_LOG_ERROR, ZC_LOG_WARNING, ZC_LOG_INFO, ZC_LOG_DEBUG };

struct zc_responder_params {
    const struct zc_device *device;
    const struct zc_region *region;
    const char *listen_address;     /* NULL or "": any address (what comes in over another device than `device` is refused, because
                                       the region is not registered there); else a numeric address */
    uint16_t port;                  /* 0: any free one */
    uint32_t max_sessions, max_qps_per_session;     /* 1..; QPs at most ZC_PEER_QPS_MAX */
    uint64_t sessions_before;       /* of responders before this one: its first session has the next number */
    uint32_t max_sessions_per_peer; /* of one address; 0: as many as there may be at all */
    const struct zc_networks *allow;    /* whose requests are heard; copied; NULL or empty: everybody's */
    const struct zc_key *key;       /* whoever does not know it is told no rkey; borrowed; NULL: everybody is */
    uint32_t hello_timeout_ms;      /* between the first request of a session and WELCOME */
    uint32_t idle_timeout_ms;       /* a session whose requester says nothing for that long ends; 0: never */
    uint32_t keepalive_interval_ms; /* a zero-length RDMA WRITE on a session that said nothing: its NIC must answer; 0: none */
    void (*log)(void *arg, enum zc_log_level level, const char *message);  /* one line; what is about a
                                       session begins with "session ID (PEER): ", a refusal with "refused PEER: "; may be NULL */
    void *log_arg;
    void (*port_changed)(void *arg);    /* an async event of the device's port: zc_device_look() may tell more; may be NULL */
    void (*device_lost)(void *arg, bool removed);   /* the device is being removed, or has failed for good: every session has been
                                           ended, and the owner destroys the responder, but not from within; may be NULL */
    void *device_arg;                   /* of the two */
};

struct zc_session_info {
    uint64_t id;                    /* local, in order of arrival */
    char peer[ZC_NAME_MAX];         /* ADDRESS:PORT */
    uint32_t qps;
    bool welcomed;                  /* HELLO has come and WELCOME has gone */
    double age_s;
    uint32_t outstanding_reads;
};

struct zc_responder_stats {
    uint64_t sessions_open, sessions_total, sessions_refused;
    uint64_t ended_bye, ended_disconnected, ended_error, ended_closed;
    uint64_t ended_timeout, ended_idle, ended_unreachable;      /* no HELLO or PROOF, no ALIVE, no answer to keep-alive */
    uint64_t port_errors, port_activations;                     /* async events: the port went down, came up */
};

/* Listen. ZC_ERR_INVALID with field "listen" (no such address on an RDMA device), ZC_ERR_BUSY (the port is in use), ZC_ERR_RESOURCE,
 * ZC_ERR_DEVICE. device and region are borrowed. */
int zc_responder_create(const struct zc_responder_params *params, struct zc_responder **responder, struct zc_error *err);
/* Tell every session BYE (200 ms at most), release everything. NULL is allowed. */
void zc_responder_destroy(struct zc_responder *responder);

/* From now on every request is refused: "it is shutting down". Sessions go on until zc_responder_destroy(). */
void zc_responder_refuse(struct zc_responder *responder);

int zc_responder_fd(const struct zc_responder *responder);      /* an epoll instance */
void zc_responder_process(struct zc_responder *responder);      /* a bounded amount of work */
uint16_t zc_responder_port(const struct zc_responder *responder);
void zc_responder_stats(const struct zc_responder *responder, struct zc_responder_stats *stats);
size_t zc_responder_sessions(const struct zc_responder *responder, struct zc_session_info *infos, size_t max); /* how many exist */
/* Tell a session BYE; it is gone when that has been sent, or after half a second. false: no such session. */
bool zc_responder_close_session(struct zc_responder *responder, uint64_t id);

#endif
