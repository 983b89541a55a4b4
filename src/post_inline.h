/* The bodies behind post.h, which includes this at its end; nothing here is for anybody else. */
#ifndef ZC_POST_INLINE_H
#define ZC_POST_INLINE_H

#include <errno.h>

#include "post.h"

static inline void zc_wr_fill(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                              enum ibv_wr_opcode opcode, unsigned flags)
{
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = sge_count;
    wr->opcode = opcode;
    wr->send_flags = flags;
}

static inline void zc_wr_read(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                              uint64_t remote_address, uint32_t rkey, unsigned flags)
{
    zc_wr_fill(wr, wr_id, sges, sge_count, IBV_WR_RDMA_READ, flags);
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
}

static inline void zc_wr_write(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                               uint64_t remote_address, uint32_t rkey, unsigned flags)
{
    zc_wr_fill(wr, wr_id, sges, sge_count, IBV_WR_RDMA_WRITE, flags);
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
}

static inline void zc_wr_write_imm(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count,
                                   uint64_t remote_address, uint32_t rkey, __be32 immediate, unsigned flags)
{
    zc_wr_fill(wr, wr_id, sges, sge_count, IBV_WR_RDMA_WRITE_WITH_IMM, flags);
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
    wr->imm_data = immediate;
}

static inline void zc_wr_send(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, unsigned flags)
{
    zc_wr_fill(wr, wr_id, sges, sge_count, IBV_WR_SEND, flags);
}

static inline void zc_wr_send_imm(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, __be32 immediate,
                                  unsigned flags)
{
    zc_wr_fill(wr, wr_id, sges, sge_count, IBV_WR_SEND_WITH_IMM, flags);
    wr->imm_data = immediate;
}

static inline void zc_wr_send_inline(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, const void *bytes,
                                     uint32_t length_bytes, unsigned flags)
{
    sge->addr = (uintptr_t)bytes;
    sge->length = length_bytes;
    sge->lkey = 0;
    zc_wr_fill(wr, wr_id, sge, 1, IBV_WR_SEND, flags | IBV_SEND_INLINE);
}

static inline void zc_wr_fill_atomic(struct ibv_send_wr *wr, uint64_t remote_address, uint32_t rkey, uint64_t compare_add,
                                     uint64_t swap)
{
    wr->wr.atomic.remote_addr = remote_address;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
}

static inline void zc_wr_fetch_add(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, uint64_t remote_address,
                                   uint32_t rkey, uint64_t add, unsigned flags)
{
    zc_wr_fill(wr, wr_id, sge, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, flags);
    zc_wr_fill_atomic(wr, remote_address, rkey, add, 0);
}

static inline void zc_wr_cmp_swap(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, uint64_t remote_address,
                                  uint32_t rkey, uint64_t compare, uint64_t swap, unsigned flags)
{
    zc_wr_fill(wr, wr_id, sge, 1, IBV_WR_ATOMIC_CMP_AND_SWP, flags);
    zc_wr_fill_atomic(wr, remote_address, rkey, compare, swap);
}

static inline void zc_wr_recv(struct ibv_recv_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count)
{
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = sge_count;
}

static inline void zc_wr_link_send(struct ibv_send_wr *wrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
}

static inline void zc_wr_link_recv(struct ibv_recv_wr *wrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
}

/* Of all pieces or SGEs of a WR. */
static inline uint64_t zc_wr_length(const struct ibv_send_wr *wr)
{
    uint64_t bytes = 0;
    for (int i = 0; i < wr->num_sge; i++)
        bytes += wr->sg_list[i].length;
    return bytes;
}

/* What can be known to be wrong with an entry before the provider is asked. One SGE any queue takes. */
static inline int zc_wr_check(const struct zc_sender *sender, const struct ibv_send_wr *wr)
{
    if (wr->num_sge != 1 && (uint32_t)wr->num_sge > sender->max_sge)    /* a negative one, too */
        return -EINVAL;
    if (wr->send_flags & IBV_SEND_INLINE && zc_wr_length(wr) > sender->max_inline_bytes)
        return -EMSGSIZE;
    return 0;
}

/* The extended family, where *bad is written only if it is not the first entry; and the answer to a list that was not taken, or not
 * wholly: post_extended.c, sender.c. `list`: NULL where nothing went to the provider, and rc is negative; else it is what that said. */
int zc_sender_post_extended(const struct zc_sender *sender, struct ibv_send_wr *list, struct ibv_send_wr **bad);
int zc_sender_refused(int rc, struct ibv_send_wr *list, struct ibv_send_wr *bad, size_t *accepted, struct ibv_send_wr **bad_wr);

/* How many entries stand before `end`. */
static inline size_t zc_wr_count(const struct ibv_send_wr *list, const struct ibv_send_wr *end)
{
    size_t count = 0;
    for (; list && list != end; list = list->next)
        count++;
    return count;
}

static inline int zc_sender_post(const struct zc_sender *sender, struct ibv_send_wr *list, size_t *accepted,
                                 struct ibv_send_wr **bad_wr)
{
    struct ibv_send_wr *bad = list;
    int rc = 0;
    if (sender->ex) {
        rc = list ? zc_sender_post_extended(sender, list, &bad) : 0;
        if (rc)
            return zc_sender_refused(rc, NULL, bad, accepted, bad_wr);
    } else {
        for (struct ibv_send_wr *wr = list; wr; wr = wr->next) {
            rc = zc_wr_check(sender, wr);
            if (rc)
                return zc_sender_refused(rc, NULL, wr, accepted, bad_wr);
        }
        rc = list ? ibv_post_send(sender->qp, list, &bad) : 0;
        if (rc)
            return zc_sender_refused(rc, list, bad, accepted, bad_wr);
    }
    if (accepted)
        *accepted = zc_wr_count(list, NULL);
    if (bad_wr)
        *bad_wr = NULL;
    return 0;
}

#endif
