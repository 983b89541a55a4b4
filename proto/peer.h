/* What two daemons say to each other: rdma_cm private data and the SEND/RECV messages on a session's first QP.
 * Fixed-width little-endian fields, every size asserted, reserved bytes zero on sending and ignored on receiving.
 * No I/O here. Encoding is a plain struct: the helpers in peer.c swap on big-endian hosts.
 *
 *   requester                         responder
 *   connection request, a QP each ->
 *                                     <- accept, or reject with a reason
 *   HELLO with a nonce ->
 *                                     <- CHALLENGE with a nonce    where the responder has a key
 *   PROOF, a MAC of both nonces ->                                 (auth.h)
 *                                     <- WELCOME: the region, an rkey for each QP
 *   ALIVE now and then ->
 *   BYE ->                            <- BYE with a reason */
#ifndef ZC_PEER_H
#define ZC_PEER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZC_PEER_VERSION = 2,
    ZC_DEFAULT_PORT = 17471,    /* rdma_cm port (RDMA_PS_TCP) of zcrdmad */
    ZC_PEER_QPS_MAX = 64,       /* of a session */
    ZC_PEER_PROOF_BYTES = 32,   /* of a nonce and of a MAC */
    ZC_PEER_CREDITS = 4,        /* messages that a requester may have on their way */
};
#define ZC_PEER_MAGIC UINT32_C(0x3152435a) /* "ZCR1" */

/* Private data of a connection request (rdma_connect(3)); at most 56 bytes reach the peer in RDMA_PS_TCP, and 56 arrive. */
struct zc_peer_request {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;         /* 0 */
    uint64_t session;       /* random, chosen by the requester: the QPs of one session carry the same */
    uint16_t qp_index;      /* 0 is the control QP */
    uint16_t qp_count;      /* 1..ZC_PEER_QPS_MAX */
    uint32_t reserved;
};
static_assert(sizeof(struct zc_peer_request) == 24, "wire size");

/* Why a peer is refused, or a session ended. */
enum zc_peer_status {
    ZC_PEER_OK = 0,
    ZC_PEER_BAD_REQUEST = 1,    /* no or wrong private data */
    ZC_PEER_BAD_VERSION = 2,    /* `version` says what the responder speaks */
    ZC_PEER_TOO_MANY = 3,       /* sessions at all: max_sessions */
    ZC_PEER_NO_MEMORY = 4,
    ZC_PEER_GOING_AWAY = 5,
    ZC_PEER_TOO_MANY_QPS = 6,   /* max_qps_per_session */
    ZC_PEER_TOO_MANY_OF_PEER = 7,   /* max_sessions_per_peer */
    ZC_PEER_NOT_ALLOWED = 8,    /* the peer's address is in none of the networks of `allow` */
    ZC_PEER_WRONG_KEY = 9,
    ZC_PEER_IDLE = 10,          /* no ALIVE came for idle_timeout */
    ZC_PEER_OTHER_DEVICE = 11,  /* the request came over an RDMA device that is not the region's */
};

/* Private data of the answer, accept and reject alike. */
struct zc_peer_answer {
    uint32_t magic;
    uint16_t version;
    uint16_t status;        /* enum zc_peer_status */
    uint32_t limit;         /* the one that is reached, with ZC_PEER_TOO_MANY...; otherwise 0 */
    uint32_t reserved;
};
static_assert(sizeof(struct zc_peer_answer) == 16, "wire size");

enum zc_peer_type {
    ZC_PEER_HELLO = 1, ZC_PEER_WELCOME = 2, ZC_PEER_BYE = 3, ZC_PEER_CHALLENGE = 4, ZC_PEER_PROOF = 5, ZC_PEER_ALIVE = 6,
};

/* Every message on the control QP but WELCOME. */
struct zc_peer_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;              /* enum zc_peer_type */
    uint64_t session;
    uint8_t proof[ZC_PEER_PROOF_BYTES];     /* HELLO, CHALLENGE: a nonce; PROOF: the MAC; otherwise 0 */
    uint16_t status;            /* BYE: enum zc_peer_status; otherwise 0 */
    uint16_t reserved16[3];
    uint64_t reserved;
};
static_assert(sizeof(struct zc_peer_message) == 64, "wire size");

struct zc_peer_welcome {
    uint32_t magic;
    uint16_t version;
    uint16_t type;              /* ZC_PEER_WELCOME */
    uint64_t session;
    uint64_t region_address;    /* remote address of byte 0 of the region */
    uint64_t region_size;       /* bytes */
    uint64_t pattern_seed;
    uint32_t alive_ms;          /* how often ALIVE is to come; 0: never */
    uint32_t active_mtu;        /* of the responder's port, bytes; 0: it does not say, as earlier releases do not */
    uint8_t mac[ZC_PEER_PROOF_BYTES];       /* 0 where no CHALLENGE was made */
    uint32_t rkeys[ZC_PEER_QPS_MAX];        /* of QP i; 0 where there is none */
};
static_assert(sizeof(struct zc_peer_welcome) == 336, "wire size");

/* Host to wire and back, in place (no-ops on little-endian hosts). */
void zc_peer_request_swap(struct zc_peer_request *request);
void zc_peer_answer_swap(struct zc_peer_answer *answer);
void zc_peer_message_swap(struct zc_peer_message *message);
void zc_peer_welcome_swap(struct zc_peer_welcome *welcome);

/* A sentence part for the status: "it speaks another version", ... Static storage. */
const char *zc_peer_status_text(uint16_t status);
/* The configuration key of the limit that a status is about, or NULL. */
const char *zc_peer_status_limit(uint16_t status);

#endif
