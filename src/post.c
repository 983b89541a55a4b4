/* Filling WRs and posting lists of them: see post.h. Nothing here allocates, copies data or locks. */
#include "post.h"

#include <errno.h>

void zc_wr_read(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, uint64_t remote_address,
                uint32_t rkey, unsigned flags)
{
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = sge_count;
    wr->opcode = IBV_WR_RDMA_READ;
    wr->send_flags = flags;
    wr->wr.rdma.remote_addr = remote_address;
    wr->wr.rdma.rkey = rkey;
}

void zc_wr_send(struct ibv_send_wr *wr, uint64_t wr_id, struct ibv_sge *sges, int sge_count, unsigned flags)
{
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = sge_count;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = flags;
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

/* Verbs answer with a positive errno; a few providers with -1 and errno. */
static int post_error(int answer)
{
    if (answer == 0)
        return 0;
    if (answer == -1)
        return errno ? -errno : -EIO;
    return answer > 0 ? -answer : answer;
}

/* How many entries stand before `end`. A provider that refuses without naming the entry is taken to have accepted none. */
static size_t count_send(const struct ibv_send_wr *list, const struct ibv_send_wr *end)
{
    size_t count = 0;
    for (; list && list != end; list = list->next)
        count++;
    return count;
}

static size_t count_recv(const struct ibv_recv_wr *list, const struct ibv_recv_wr *end)
{
    size_t count = 0;
    for (; list && list != end; list = list->next)
        count++;
    return count;
}

int zc_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, size_t *accepted, struct ibv_send_wr **bad_wr)
{
    struct ibv_send_wr *bad = list;
    int rc = list ? post_error(ibv_post_send(qp, list, &bad)) : 0;
    if (accepted)
        *accepted = count_send(list, rc ? bad : NULL);
    if (bad_wr)
        *bad_wr = rc ? bad : NULL;
    return rc;
}

int zc_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr)
{
    struct ibv_recv_wr *bad = list;
    int rc = list ? post_error(ibv_post_recv(qp, list, &bad)) : 0;
    if (accepted)
        *accepted = count_recv(list, rc ? bad : NULL);
    if (bad_wr)
        *bad_wr = rc ? bad : NULL;
    return rc;
}

int zc_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr)
{
    struct ibv_recv_wr *bad = list;
    int rc = list ? post_error(ibv_post_srq_recv(srq, list, &bad)) : 0;
    if (accepted)
        *accepted = count_recv(list, rc ? bad : NULL);
    if (bad_wr)
        *bad_wr = rc ? bad : NULL;
    return rc;
}
