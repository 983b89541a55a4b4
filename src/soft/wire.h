/* What travels between two devices. Little-endian, fixed width, reserved bytes zero. A stream starts with a hello in
 * each direction; then it carries frames (ZS_KIND_LINK: QP traffic) or connection messages (ZS_KIND_CM: rdma_cm).
 *
 * A link is one-directional in the sense of roles: the side that connected sends requests, the other answers on the
 * same stream. Two processes whose QPs both send have two links, so simultaneous connects need no resolution. */
#ifndef ZCSOFT_WIRE_H
#define ZCSOFT_WIRE_H

#include <assert.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is written without byte swapping: add it before porting to a big-endian machine"
#endif

#define ZS_MAGIC 0x3154465343415a5aULL
#define ZS_WIRE_VERSION 4

enum zs_kind { ZS_KIND_LINK = 1, ZS_KIND_CM = 2 };

struct zs_hello {
    uint64_t magic;
    uint16_t version;
    uint8_t kind; /* enum zs_kind */
    uint8_t reserved0;
    uint32_t pid;      /* meaningful on one host only; verified with SO_PEERCRED before it is used */
    uint64_t instance; /* random, one a process: tells a restarted peer from the one a QP was connected to */
    /* Addresses in the sender's memory (direct.c), for a peer on the same host that may read it; else unused. */
    uint64_t ports;    /* uint16_t[256]: the ports of its QP numbers, in the order of its QP table */
    uint64_t qp_table; /* struct zs_qp_slot[256 * ports] */
    uint64_t mr_table; /* struct zs_mr_slot[] */
    uint64_t reserved1[2];
};
static_assert(sizeof(struct zs_hello) == 64, "wire size");

enum zs_frame_op {
    ZS_OP_SEND = 1,    /* requests: first..last piece of a message */
    ZS_OP_WRITE,
    ZS_OP_READ,        /* no payload */
    ZS_OP_CMP_SWAP,
    ZS_OP_FETCH_ADD,
    ZS_OP_READ_DATA,   /* answers */
    ZS_OP_ATOMIC_DATA, /* a = the value before the operation */
    ZS_OP_ACK,         /* everything up to and including psn */
    ZS_OP_NAK,         /* code tells why; psn names the request */
    ZS_OP_MAX
};

enum zs_frame_flags {
    ZS_F_FIRST = 1,
    ZS_F_LAST = 2,
    ZS_F_IMM = 4,
    ZS_F_SOLICITED = 8,
    ZS_F_INV = 16,
    ZS_F_PULL = 32, /* SEND, WRITE: no payload follows; the responder fetches it from the requester's memory (direct.c) */
};

enum zs_nak {
    ZS_NAK_NONE = 0,
    ZS_NAK_RNR,     /* no receive posted: try again after `imm` (an RNR timer code) */
    ZS_NAK_DROPPED, /* a NIC would have dropped the packet silently (QP unknown or not ready): the requester's timer runs */
    ZS_NAK_INV_REQ,
    ZS_NAK_ACCESS,
    ZS_NAK_OP,
    ZS_NAK_PULL, /* the payload could not be fetched: send it over the stream; `imm` is 1 if that goes for all that follow */
    ZS_NAK_MAX
};

struct zs_frame {
    uint8_t op;    /* enum zs_frame_op */
    uint8_t flags; /* enum zs_frame_flags */
    uint8_t code;  /* enum zs_nak */
    uint8_t reserved0;
    uint32_t dst_qpn;
    uint32_t src_qpn;
    uint32_t psn;    /* message number, 24 bits, from the QP's sq_psn on; one a message, not one a packet */
    uint32_t length; /* payload bytes behind this header, or to be fetched */
    uint32_t total;  /* bytes of the whole message */
    uint32_t offset; /* of this payload in the message */
    uint32_t imm;    /* immediate data (network order), rkey to invalidate, RNR timer code */
    uint32_t rkey;
    uint32_t qp_slot; /* PULL: which of the sender's struct zs_qp_slot */
    uint64_t va;
    uint64_t a; /* atomics: compare or add; ATOMIC_DATA: the value found; PULL: where the payload lies */
    uint64_t b; /* atomics: swap; PULL: the lkey that covers it */
};
static_assert(sizeof(struct zs_frame) == 64, "wire size");

#define ZS_PIECE 65536u /* payload bytes a frame carries at most: what a deregistration may have to wait for */
#define ZS_PULL_PIECE 262144u /* the same where they are fetched, which is quicker */

/* What a process shows of its queue pairs and its memory regions. A reader copies a slot and compares it with an earlier
 * copy: what has not changed over the reading of the data was valid while it was read. */
struct zs_qp_slot {
    uint64_t instance; /* as in the hello; 0: no such queue pair */
    uint32_t qpn;
    uint32_t dest_qpn;
    uint32_t access; /* qp_access_flags */
    uint32_t answers; /* how many READs may be outstanding to it; 0 where it would not answer */
    uint64_t pd;
    uint32_t sends; /* 1 in the states in which requests of its own may be under way */
    uint32_t reserved0;
    uint64_t reserved[3];
};
static_assert(sizeof(struct zs_qp_slot) == 64, "one cache line");

/* One registration, or one memory window that is bound. key is 0 while the slot is free or dying; every other field is constant while key is not 0. */
struct zs_mr_slot {
    _Atomic uint32_t key;
    uint32_t access;
    uint64_t iova;
    uint64_t length;
    uint64_t addr; /* where iova lies in the process */
    uint64_t pd;
    uint32_t qpn; /* a memory window of type 2: the only queue pair it serves; else 0 */
    uint32_t reserved0;
    uint64_t reserved[2];
};
static_assert(sizeof(struct zs_mr_slot) == 64, "one cache line");

/* --- rdma_cm ------------------------------------------------------------------------------------------------- */

enum zs_cm_type { ZS_CM_REQ = 1, ZS_CM_REP, ZS_CM_RTU, ZS_CM_REJ, ZS_CM_DREQ, ZS_CM_DREP, ZS_CM_MAX };

#define ZS_CM_PRIVATE_MAX 196

struct zs_cm_msg {
    uint8_t type; /* enum zs_cm_type */
    uint8_t private_len;
    uint16_t port_space;
    uint16_t status; /* REJ: reason */
    uint8_t initiator_depth;
    uint8_t responder_resources;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t flow_control;
    uint8_t srq;
    uint32_t qpn;
    uint32_t psn;
    uint8_t src_addr[16]; /* IPv6 or v4-mapped */
    uint8_t dst_addr[16];
    uint16_t src_port; /* host order value, little-endian on the wire like the rest */
    uint16_t dst_port;
    uint32_t reserved;
    uint8_t private_data[ZS_CM_PRIVATE_MAX];
};
static_assert(sizeof(struct zs_cm_msg) == 256, "wire size");

#endif
