/* Filling and linking entries: see post.h. Posting is in post_basic.c and post_extended.c, behind sender.c. */
#include "post.h"

static void fill(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, enum ibv_wr_opcode opcode,
                 unsigned flags)
{
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = sge_count;
    wr->opcode = opcode;
    wr->send_flags = flags;
}

void zc_wr_read(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, uint64_t remote_address,
                uint32_t rkey, unsigned flags)
{
    fill(wr, wr_id, sges, sge_count, IBV_WR_RDMA_READ, flags);
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
}

void zc_wr_write(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, uint64_t remote_address,
                 uint32_t rkey, unsigned flags)
{
    fill(wr, wr_id, sges, sge_count, IBV_WR_RDMA_WRITE, flags);
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
}

void zc_wr_write_imm(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, uint64_t remote_address,
                     uint32_t rkey, __be32 immediate, unsigned flags)
{
    fill(wr, wr_id, sges, sge_count, IBV_WR_RDMA_WRITE_WITH_IMM, flags);
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
    wr->imm_data = immediate;
}

void zc_wr_send(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, unsigned flags)
{
    fill(wr, wr_id, sges, sge_count, IBV_WR_SEND, flags);
}

void zc_wr_send_imm(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, __be32 immediate, unsigned flags)
{
    fill(wr, wr_id, sges, sge_count, IBV_WR_SEND_WITH_IMM, flags);
    wr->imm_data = immediate;
}

void zc_wr_send_inline(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, const void *bytes, uint32_t length_bytes,
                       unsigned flags)
{
    sge->addr = (uintptr_t)bytes;
    sge->length = length_bytes;
    sge->lkey = 0;
    fill(wr, wr_id, sge, 1, IBV_WR_SEND, flags | IBV_SEND_INLINE);
}

static void fill_atomic(struct ibv_send_wr *wr, uint64_t remote_address, uint32_t rkey, uint64_t compare_add, uint64_t swap)
{
    wr->wr.atomic.remote_addr = remote_address;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
}

void zc_wr_fetch_add(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, uint64_t remote_address, uint32_t rkey,
                     uint64_t add, unsigned flags)
{
    fill(wr, wr_id, sge, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, flags);
    fill_atomic(wr, remote_address, rkey, add, 0);
}

void zc_wr_cmp_swap(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sge, uint64_t remote_address, uint32_t rkey,
                    uint64_t compare, uint64_t swap, unsigned flags)
{
    fill(wr, wr_id, sge, 1, IBV_WR_ATOMIC_CMP_AND_SWP, flags);
    fill_atomic(wr, remote_address, rkey, compare, swap);
}

void zc_wr_recv(struct ibv_recv_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count)
{
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = sge_count;
}

void zc_wr_link_send(struct ibv_send_wr *wrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
}

void zc_wr_link_recv(struct ibv_recv_wr *wrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
}
