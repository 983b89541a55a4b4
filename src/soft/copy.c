/* Walking lists of SGEs, one contiguous run at a time, each held under a hazard while it is touched. */
#include "soft.h"

void zs_cursor_start(struct zs_cursor *c, struct zs_qp *qp, const struct zs_wqe *w, uint32_t offset)
{
    *c = (struct zs_cursor){.sge = zs_wqe_sges(qp, w), .num_sge = w->num_sge};
    if (w->flags & IBV_SEND_INLINE)
        c->inline_data = zs_wqe_inline(qp, w);
    zs_cursor_skip(c, offset);
}

void zs_cursor_skip(struct zs_cursor *c, size_t bytes)
{
    if (c->inline_data) {
        c->at += (uint32_t)bytes;
        return;
    }
    while (c->index < c->num_sge) {
        size_t left = c->sge[c->index].length - c->at;
        if (bytes < left) {
            c->at += (uint32_t)bytes;
            return;
        }
        bytes -= left;
        c->index++;
        c->at = 0;
    }
}

void *zs_cursor_hold(struct zs_cursor *c, int hazard, const struct zs_pd *pd, uint32_t access, size_t want, size_t *got)
{
    *got = 0;
    if (c->inline_data) {
        *got = want;
        return (void *)(uintptr_t)(c->inline_data + c->at);
    }
    zs_cursor_skip(c, 0); /* past empty SGEs */
    if (c->index == c->num_sge)
        return NULL;
    const struct ibv_sge *s = &c->sge[c->index];
    size_t left = s->length - c->at;
    *got = want < left ? want : left;
    return zs_mr_hold(hazard, pd, s->lkey, s->addr + c->at, *got, access);
}
