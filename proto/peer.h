/* What two daemons say to each other: rdma_cm private data and the SEND/RECV messages on a session's first QP.
 * Fixed-width little-endian fields, every size asserted, reserved bytes zero on sending and ignored on receiving.
 * No I/O here. Encoding is a plain struct: the helpers in peer.c swap on big-endian hosts. */
#ifndef ZC_PEER_H
#define ZC_PEER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZC_PEER_VERSION = 1,
    ZC_DEFAULT_PORT = 17471,    /* rdma_cm port (RDMA_PS_TCP) of zcrdmad */
};
#define ZC_PEER_MAGIC UINT32_C(0x3152435a) /* "ZCR1" */

/* Private data of a connection request (rdma_connect(3)); at most 56 bytes reach the peer in RDMA_PS_TCP, and 56 arrive. */
struct zc_peer_request {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;         /* 0 */
    uint64_t session;       /* random, chosen by the requester: the QPs of one session carry the same */
    uint16_t qp_index;      /* 0 is the control QP */
    uint16_t qp_count;      /* 1.. */
    uint32_t reserved;
};
static_assert(sizeof(struct zc_peer_request) == 24, "wire size");

/* Private data of the answer, accept and reject alike. */
enum zc_peer_status {
    ZC_PEER_OK = 0,
    ZC_PEER_BAD_REQUEST = 1,    /* no or wrong private data */
    ZC_PEER_BAD_VERSION = 2,    /* `version` says what the responder speaks */
    ZC_PEER_TOO_MANY = 3,       /* a limit of the responder */
    ZC_PEER_NO_MEMORY = 4,
    ZC_PEER_GOING_AWAY = 5,
};
struct zc_peer_answer {
    uint32_t magic;
    uint16_t version;
    uint16_t status;        /* enum zc_peer_status */
    uint64_t reserved;
};
static_assert(sizeof(struct zc_peer_answer) == 16, "wire size");

/* Messages on the control QP. */
enum zc_peer_type { ZC_PEER_HELLO = 1, ZC_PEER_WELCOME = 2, ZC_PEER_BYE = 3 };
struct zc_peer_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;              /* enum zc_peer_type */
    uint64_t session;
    /* WELCOME only, otherwise 0 */
    uint64_t region_address;    /* remote address of byte 0 of the region */
    uint64_t region_size;       /* bytes */
    uint64_t pattern_seed;
    uint32_t rkey;
    uint16_t status;            /* enum zc_peer_status; in BYE the reason */
    uint16_t reserved16;
    uint64_t reserved[2];
};
static_assert(sizeof(struct zc_peer_message) == 64, "wire size");

/* Host to wire and back, in place (no-ops on little-endian hosts). */
void zc_peer_request_swap(struct zc_peer_request *request);
void zc_peer_answer_swap(struct zc_peer_answer *answer);
void zc_peer_message_swap(struct zc_peer_message *message);

/* A sentence part for the status: "it speaks another version", ... Static storage. */
const char *zc_peer_status_text(uint16_t status);

#endif
