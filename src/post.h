/* Posting without allocation or copy (basic family: ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3)). WRs and SGEs are
 * the caller's - on the stack, in a static array, in a ring - and so are their lifetimes: a WR and its SGEs may be reused as soon
 * as the post call has returned; the memory that a SGE names must stay registered and unchanged until the completion, except
 * inline data, which the provider reads during the post call. Nothing here allocates, copies or locks. */
#ifndef ZC_POST_H
#define ZC_POST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Fill one entry; each sets every field that the verb reads and `next` to NULL. `flags`: enum ibv_send_flags. */
void zc_wr_read(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, uint64_t remote_address,
                uint32_t rkey, unsigned flags);
void zc_wr_send(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, unsigned flags);
void zc_wr_recv(struct ibv_recv_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count);

/* Link `count` entries of an array into one list (only `next` is touched). */
void zc_wr_link_send(struct ibv_send_wr *wrs, size_t count);
void zc_wr_link_recv(struct ibv_recv_wr *wrs, size_t count);

/* Post a linked list with one doorbell. *accepted is how many the queue took: all of them on 0; on a negative errno those before
 * the refused one, which *bad_wr (may be NULL) names, so that the rest can be posted later without rebuilding. */
int zc_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, size_t *accepted, struct ibv_send_wr **bad_wr);
int zc_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr);
int zc_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr);

/* Send-queue slots are counted, never discovered by ENOMEM (providers round queues up, and some refuse late). One owner thread. */
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

#endif
