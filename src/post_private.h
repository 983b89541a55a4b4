/* What the files behind post.h share: post_basic.c, post_extended.c, sender.c. */
#ifndef ZC_POST_PRIVATE_H
#define ZC_POST_PRIVATE_H

#include <errno.h>

#include "post.h"

/* Verbs answer with a positive errno; a few providers with -1 and errno. */
static inline int zc_post_error(int answer)
{
    if (answer == 0)
        return 0;
    if (answer == -1)
        return errno ? -errno : -EIO;
    return answer > 0 ? -answer : answer;
}

/* The basic family, *bad being the refused entry on an error: the first one where the provider did not say. */
static inline int zc_post_basic(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    *bad = list;
    return zc_post_error(ibv_post_send(qp, list, bad));
}

/* The extended family, all or nothing; *bad as zc_sender_post() promises. The list is not empty. */
int zc_post_extended(struct ibv_qp_ex *ex, struct ibv_send_wr *list, struct ibv_send_wr **bad);
/* Was the QP created for these operations? `ops`: IBV_QP_EX_WITH_*. */
bool zc_post_extended_offers(const struct ibv_qp_ex *ex, uint64_t ops);

/* How many entries stand before `end`. */
static inline size_t zc_count_send(const struct ibv_send_wr *list, const struct ibv_send_wr *end)
{
    size_t count = 0;
    for (; list && list != end; list = list->next)
        count++;
    return count;
}

#endif
