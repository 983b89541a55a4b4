/* Taking completions, in both families of verbs, from any CQ: ibv_poll_cq(3), or ibv_start_poll and ibv_end_poll of
 * ibv_create_cq_ex(3). No allocation, no system call. */
#ifndef ZC_POLLER_H
#define ZC_POLLER_H

#include <infiniband/verbs.h>

#include "family.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A CQ, described by its user. Owns nothing; ends with the CQ. One of the two is set: `ex` for a CQ of ibv_create_cq_ex(3), whose
 * ibv_cq_ex_to_cq() may stand beside it. */
struct zc_poller {
    struct ibv_cq *cq;
    struct ibv_cq_ex *ex;           /* NULL: the basic family */
};

/* At most `max` completions into `wcs`, the caller's. How many there were, or a negative errno. Of a failed one wr_id, status, qp_num
 * and vendor_err are valid only (ibv_poll_cq(3)). From an extended CQ comes what it was created for (wc_flags of
 * ibv_create_cq_ex(3)); the rest is 0. Several threads, where the CQ was not created single-threaded. */
int zc_poll(const struct zc_poller *poller, int max, struct ibv_wc *wcs);

#ifdef __cplusplus
}
#endif

#endif
