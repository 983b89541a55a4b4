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

/* Was the QP created for these operations? `ops`: IBV_QP_EX_WITH_*. */
bool zc_post_extended_offers(const struct ibv_qp_ex *ex, uint64_t ops);

#endif
