/* The requester's side: one session with a peer, connected in the calling thread with a deadline for every step. rdma_cm only.
 * The responder's side is responder.h. */
#ifndef ZC_CONNECTION_H
#define ZC_CONNECTION_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth.h"
#include "completion.h"
#include "device.h"
#include "error.h"
#include "family.h"
#include "post.h"

struct zc_connection;

/* wr_id of this module's own sends. None of them completes on the caller's CQ while the connection is alive; once it has failed,
 * one may be flushed there. Data WRs must use other ids. */
#define ZC_CONTROL_WR_ID UINT64_MAX

struct zc_connection_params {
    const char *host;               /* name or address; the device's own address for "self" */
    uint16_t port;
    uint32_t qps;                   /* 1.. */
    uint32_t send_slots;            /* READs that one QP must be able to hold */
    uint32_t timeout_ms;            /* for the whole set-up */
    uint8_t tos;                    /* type of service of the packets: RDMA_OPTION_ID_TOS; 0: the system's choice */
    enum zc_family post;            /* of verbs that the QPs are posted to with; decided when they are created */
    const struct zc_key *key;       /* what a CHALLENGE is answered with; borrowed while opening; NULL: none */
    bool from_device;               /* leave from the device's own address, whatever route the system would take */
    int cancel_fd;                  /* readable: give up with ZC_ERR_CANCELLED; -1: none */
    struct zc_completion *completion;   /* data completions of all QPs; borrowed, outlives the connection,
                                       serves one connection at a time */
};

/* What WELCOME told. */
struct zc_remote {
    uint64_t address, size_bytes, pattern_seed;
    uint32_t active_mtu;            /* of the peer's port, bytes; 0: it did not say */
    char numeric_address[ZC_NAME_MAX];
    uint16_t port;
};

/* Resolve, connect every QP, HELLO, WELCOME. Errors are ZC_ERR_PEER in words that a user understands: does not resolve, no answer
 * within N ms, refused (nobody listens on port P), speaks another protocol, speaks version V, a limit and its number, the key, ... */
int zc_connection_open(const struct zc_device *device, const struct zc_connection_params *params, struct zc_connection **connection,
                       struct zc_error *err);
/* BYE (best effort, 200 ms), disconnect, destroy; never blocks longer than a second; NULL is allowed. Outstanding WRs are flushed,
 * and whatever is in the completion is dropped: afterwards no memory that a WR named is written any more. */
void zc_connection_close(struct zc_connection *connection);

const struct zc_remote *zc_connection_remote(const struct zc_connection *connection);
struct ibv_qp *zc_connection_qp(const struct zc_connection *connection, uint32_t index);
/* The send queue of a QP, for RDMA READs; which family it came to be, zc_sender_family() tells. The connection's, until it is closed. */
const struct zc_sender *zc_connection_sender(const struct zc_connection *connection, uint32_t index);
uint32_t zc_connection_rkey(const struct zc_connection *connection, uint32_t index);  /* serves READs on that QP alone */
uint32_t zc_connection_qp_count(const struct zc_connection *connection);
uint32_t zc_connection_outstanding_reads(const struct zc_connection *connection);  /* a QP: what both sides agreed on, >= 1 */
uint64_t zc_connection_max_read_bytes(const struct zc_connection *connection);     /* of one READ: 2 GiB - 1 or max_msg_sz */

/* Tell the peer now and then that this process is alive, which it asked for in WELCOME: call it at least every second, from the
 * thread that posts. Nothing happens until it is time, and then one small message is posted on QP 0, unsignaled, in a slot of its own. */
void zc_connection_keep(struct zc_connection *connection, uint64_t now_ns);

/* Has the peer gone (DISCONNECTED, BYE, async QP error)? Looks at its descriptors without blocking, but once it has gone waits 100 ms
 * for the reason; call it every few milliseconds while waiting, and when a completion fails; it keeps the session alive, too. 0, or
 * with err filled -ESHUTDOWN: the peer said why, -ENODEV: this host's device was removed (ZC_ERR_DEVICE), or -ENOTCONN: it is gone
 * all the same. */
int zc_connection_check(struct zc_connection *connection, struct zc_error *err);
/* Descriptor that becomes readable when zc_connection_check() has something to say (an epoll instance). */
int zc_connection_fd(const struct zc_connection *connection);

#endif
