/* Posting from arrays that the caller owns, in both families of verbs. Nothing here allocates, copies payload, locks or makes a
 * system call (zc_sender_init() makes one), and no object of ours is needed: a QP or SRQ may come from anywhere.
 *
 * Memory. WRs, SGEs and inline bytes are the caller's - on the stack, in a static array, in a ring - and are only read, but for what
 * a function says it writes. Until when they must stay as they are:
 *
 *                          basic: ibv_post_send(3)          extended: ibv_wr_post(3)         receives: ibv_post_recv(3)
 *   WR, SGE array          until the post call returns      until the post call returns      until the post call returns
 *   inline bytes           until the post call returns      until the setter has them,       -
 *                                                           within the post call
 *   memory that a SGE      until the completion             until the completion             until the completion
 *   names (registered)
 *
 * Inline bytes are borrowed: the provider reads them where the caller has them and copies them into its queue, which is the only copy
 * of a byte on the host; nothing here makes another. They need no registration, and their SGEs no lkey. A list of inline pieces is
 * handed on as it stands by the basic family; the extended one wants {address, length} in another layout, so that up to
 * ZC_INLINE_PIECES_MAX descriptors (not the bytes) are rewritten on the stack.
 *
 * Threads. A QP may be posted to by several threads where its provider locks, as providers do unless told otherwise; a struct
 * zc_sender is constant after its initialisation. A struct zc_signaling has one owner.
 *
 * Filling and the way to ibv_post_send() are inline, as that is itself: a few stores and comparisons, which a call would double.
 *
 * Errors are negative errno. See ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3), ibv_wr_post(3). */
#ifndef ZC_POST_H
#define ZC_POST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "family.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- entries ------------------------------------------------------------------------------------------------------
 * Fill one entry: every field that its verb reads, `next` = NULL, nothing else. `sges` is stored, not copied; 0 SGEs is a message of
 * no bytes. `flags`: enum ibv_send_flags. `immediate` is in network order, as it travels. */

static inline void zc_wr_read(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                              uint64_t remote_address, uint32_t rkey, unsigned flags);
static inline void zc_wr_write(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                               uint64_t remote_address, uint32_t rkey, unsigned flags);
static inline void zc_wr_write_imm(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                                   uint64_t remote_address, uint32_t rkey, __be32 immediate, unsigned flags);
static inline void zc_wr_send(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, unsigned flags);
static inline void zc_wr_send_imm(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, __be32 immediate,
                                  unsigned flags);
/* One piece of inline bytes, described in *sge, which the caller owns as any other. For a list of pieces fill SGEs (address and
 * length) and give IBV_SEND_INLINE to zc_wr_send(), zc_wr_write() and their like. */
static inline void zc_wr_send_inline(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, const void *bytes,
                                     uint32_t length_bytes, unsigned flags);
/* Atomics on 8 aligned bytes at remote_address; the value before comes to the 8 bytes that *sge names. */
static inline void zc_wr_fetch_add(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, uint64_t remote_address,
                                   uint32_t rkey, uint64_t add, unsigned flags);
static inline void zc_wr_cmp_swap(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, uint64_t remote_address,
                                  uint32_t rkey, uint64_t compare, uint64_t swap, unsigned flags);
static inline void zc_wr_recv(struct ibv_recv_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count);

/* Make one list of `count` entries of an array: only `next` is written. */
static inline void zc_wr_link_send(struct ibv_send_wr *wrs, size_t count);
static inline void zc_wr_link_recv(struct ibv_recv_wr *wrs, size_t count);

/* --- posting ------------------------------------------------------------------------------------------------------
 * A list goes out with one call and one doorbell; NULL is a list of none. *accepted (may be NULL) is how many the queue took: all of
 * them on 0. *bad_wr (may be NULL) is NULL on 0, else the entry that was refused; those before it are accepted, so that it and what
 * is linked behind it can be posted later as they stand. What provider and device find wrong with an entry later comes as a
 * completion. */

/* The basic family on any QP or SRQ. -ENOMEM: the queue is full; -EINVAL and others: the provider's, for this entry. */
int zc_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, size_t *accepted, struct ibv_send_wr **bad_wr);
int zc_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr);
int zc_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr);

/* A send queue, described by its user: decided once, when the QP has been created. Owns nothing; ends with the QP. Whoever knows the
 * QP's capabilities (ibv_create_qp(3) returns them) may fill it instead of zc_sender_init(). */
struct zc_sender {
    struct ibv_qp *qp;
    struct ibv_qp_ex *ex;           /* NULL: the basic family */
    uint32_t max_inline_bytes;      /* of one WR */
    uint32_t max_sge;               /* of one WR */
};

/* `ops`: what will be posted, IBV_QP_EX_WITH_* (ibv_create_qp_ex(3)). ZC_FAMILY_AUTO uses the extended family where the QP, RC or UC,
 * was created for all of them. ZC_FAMILY_EXTENDED: -EOPNOTSUPP where it was not. Soft-RoCE's library has faulty setters for lists in the
 * extended family (sender.c): AUTO is basic there for a QP with several SGEs a WR, EXTENDED takes one SGE or inline piece (max_sge 1). Asks ibv_query_qp(3), a system call; its error
 * comes back. The QP may be in any state. */
int zc_sender_init(struct zc_sender *sender, struct ibv_qp *qp, enum zc_family family, uint64_t ops);
enum zc_family zc_sender_family(const struct zc_sender *sender);    /* BASIC or EXTENDED */

/* One form for both families; entries are struct ibv_send_wr in either.
 * Nothing is posted, and *bad_wr is the entry to blame, on
 *   -EMSGSIZE    more inline bytes than sender->max_inline_bytes
 *   -EINVAL      more SGEs than sender->max_sge, or, extended, more inline pieces than ZC_INLINE_PIECES_MAX
 *   -EOPNOTSUPP  extended: an operation that the QP was not created for, or none of that family
 * Basic: -ENOMEM and the provider's own errors are as in zc_post_send().
 * Extended: all or nothing. On -ENOMEM (the queue has no room for all of it) and the provider's own errors *accepted is 0 and *bad_wr
 * the first entry. */
enum { ZC_INLINE_PIECES_MAX = 32 };
static inline int zc_sender_post(const struct zc_sender *sender, struct ibv_send_wr *list, size_t *accepted,
                                 struct ibv_send_wr **bad_wr);

/* What an error of zc_sender_post() means, in one line with the limit and the entry's wr_id. Returns text, `size` bytes at most with
 * the terminating zero. */
const char *zc_sender_error_text(const struct zc_sender *sender, int error, const struct ibv_send_wr *bad_wr, char *text,
                                 size_t size);

/* --- slots --------------------------------------------------------------------------------------------------------
 * Send-queue slots are counted, never discovered by ENOMEM (providers round queues up, and some refuse late). One owner thread. */

/* Every WR is signaled: a completion frees one slot. */
struct zc_slots {
    uint32_t capacity, used;
};
static inline uint32_t zc_slots_free(const struct zc_slots *slots) { return slots->capacity - slots->used; }
static inline bool zc_slots_take(struct zc_slots *slots, uint32_t count)
{
    if (zc_slots_free(slots) < count)
        return false;
    slots->used += count;
    return true;
}
static inline void zc_slots_give(struct zc_slots *slots, uint32_t count) { slots->used -= count; }

/* Selective signaling: an unsignaled WR keeps its slot until a signaled one behind it completes, which frees both and all between
 * them. Slots are freed exactly so, and a queue cannot fill up with WRs of which none will ever complete: where `interval` - 1
 * unsignaled ones stand in a row, the next is made signaled. What the caller wants to hear of it signals itself, the last of a
 * burst for instance. */
struct zc_wr_slot {
    uint64_t wr_id;
    bool signaled;
};
struct zc_signaling {
    struct zc_wr_slot *slots;       /* the caller's, `capacity` of them, for as long as it is used */
    uint32_t capacity, interval;
    uint32_t first, used;           /* the oldest that is taken; how many are */
    uint32_t run;                   /* unsignaled ones behind the last signaled */
};

/* `capacity`: max_send_wr as asked for, 1.. ; `interval`: 1 to capacity, brought into that range. 1 signals every WR and is the
 * right one for a QP with sq_sig_all. */
void zc_signaling_init(struct zc_signaling *signaling, struct zc_wr_slot *slots, uint32_t capacity, uint32_t interval);
static inline uint32_t zc_signaling_free(const struct zc_signaling *signaling) { return signaling->capacity - signaling->used; }

/* zc_sender_post() of as many entries as have a slot. The only field of an entry that is written is send_flags (IBV_SEND_SIGNALED,
 * where the interval demands it); `next` of the last that fits is put back before it returns. -ENOMEM: no slot for *bad_wr, or the
 * provider had less room than `capacity`; it and those behind it can be posted when completions have freed slots. */
int zc_signaling_post(struct zc_signaling *signaling, const struct zc_sender *sender, struct ibv_send_wr *list, size_t *accepted,
                      struct ibv_send_wr **bad_wr);
/* A completion of the send queue, in the order in which they came: how many slots it freed. After a failure the queue is flushed and
 * each WR that is left completes with an error, unsignaled ones too (InfiniBand specification, 10.8.3): those are found by their
 * wr_id, which must be unique among what is posted for that count to be exact. Exact at the end in any case where they are. */
uint32_t zc_signaling_done(struct zc_signaling *signaling, const struct ibv_wc *wc);

#include "post_inline.h"

#ifdef __cplusplus
}
#endif

#endif
