/* The basic family on any QP or SRQ: see post.h. */
#include "post_private.h"

int zc_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, size_t *accepted, struct ibv_send_wr **bad_wr)
{
    struct ibv_send_wr *bad = list;
    const int rc = list ? zc_post_error(ibv_post_send(qp, list, &bad)) : 0;
    if (accepted)
        *accepted = zc_wr_count(list, rc ? bad : NULL);
    if (bad_wr)
        *bad_wr = rc ? bad : NULL;
    return rc;
}

static size_t count_recv(const struct ibv_recv_wr *list, const struct ibv_recv_wr *end)
{
    size_t count = 0;
    for (; list && list != end; list = list->next)
        count++;
    return count;
}

int zc_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr)
{
    struct ibv_recv_wr *bad = list;
    const int rc = list ? zc_post_error(ibv_post_recv(qp, list, &bad)) : 0;
    if (accepted)
        *accepted = count_recv(list, rc ? bad : NULL);
    if (bad_wr)
        *bad_wr = rc ? bad : NULL;
    return rc;
}

int zc_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *list, size_t *accepted, struct ibv_recv_wr **bad_wr)
{
    struct ibv_recv_wr *bad = list;
    const int rc = list ? zc_post_error(ibv_post_srq_recv(srq, list, &bad)) : 0;
    if (accepted)
        *accepted = count_recv(list, rc ? bad : NULL);
    if (bad_wr)
        *bad_wr = rc ? bad : NULL;
    return rc;
}
