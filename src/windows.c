/* An rkey of its own for each QP of a session: a type-2 memory window on the region, bound by the QP that it will serve. Called by
 * messages.c and session.c. */
#include <errno.h>

#include "counters.h"
#include "post.h"
#include "responder_private.h"

int windows_bind(struct zc_responder *r, struct session *session, uint64_t wr_id)
{
    struct session_qp *qp = &session->qps[session->bound];
    qp->mw = ibv_alloc_mw(zc_device_pd(r->params.device), IBV_MW_TYPE_2);
    if (!qp->mw)
        return errno ? -errno : -ENOMEM;
    zc_count(&zc_counters.mws, 1);
    qp->rkey = ibv_inc_rkey(qp->mw->rkey);
    struct ibv_send_wr wr = {
        .wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
        .bind_mw = {.mw = qp->mw, .rkey = qp->rkey,
                    .bind_info = {.mr = zc_region_mr(r->params.region), .addr = zc_region_address(r->params.region),
                                  .length = zc_region_size(r->params.region), .mw_access_flags = IBV_ACCESS_REMOTE_READ}},
    };
    return zc_post_send(qp->id->qp, &wr, NULL, NULL);
}

void windows_free(struct session *session)
{
    for (uint32_t i = 0; i < session->qp_count; i++) {
        if (session->qps[i].mw && ibv_dealloc_mw(session->qps[i].mw) == 0)
            zc_count(&zc_counters.mws, -1);
        session->qps[i].mw = NULL;
    }
}
