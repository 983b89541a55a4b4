/* Memory windows: rkeys of their own on a part of a region. Type 1 is bound by ibv_bind_mw() and serves every queue pair
 * of its PD; type 2 is bound by a work request under a key that the program chooses (its low 8 bits), serves the queue
 * pair that bound it and is invalidated by LOCAL_INV or by the peer's SEND_WITH_INV. Binding and invalidating happen on
 * the device thread, in the order of the send queue, after everything posted before is complete. What is checked follows
 * the InfiniBand specification, 10.6.7.2 and 10.6.5. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct zs_mw {
    enum zs_owner kind; /* first, as in struct zs_mr */
    struct ibv_mw mw;
    uint32_t slot;
    uint32_t posted_key; /* type 1, under the table's lock: what the next bind gives */
    struct zs_mr *mr;    /* bound to it; NULL: not bound */
    uint32_t qpn;        /* type 2 */
    struct zs_list bound; /* windows_of_qps */
};

static struct zs_list windows_of_qps = {&windows_of_qps, &windows_of_qps}; /* bound, type 2; under the table's lock */

static struct ibv_mw *fail(int e)
{
    errno = e;
    return NULL;
}

struct ibv_mw *zs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    if (!zs_usable())
        return NULL;
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
        return fail(EINVAL);
    struct zs_mw *w = calloc(1, sizeof *w);
    if (!w)
        return fail(ENOMEM);
    w->kind = ZS_OWNER_MW;
    zs_list_init(&w->bound);
    pthread_mutex_lock(&zs_table_lock);
    w->slot = zs_slot_take(w);
    if (w->slot != ZS_NO_SLOT)
        w->posted_key = w->mw.rkey = zs_slot_next_key(w->slot);
    pthread_mutex_unlock(&zs_table_lock);
    if (w->slot == ZS_NO_SLOT) {
        free(w);
        return fail(ENOMEM);
    }
    w->mw.context = pd->context;
    w->mw.pd = pd;
    w->mw.handle = w->slot;
    w->mw.type = type;
    atomic_fetch_add(&zs_container(pd, struct zs_pd, pd)->users, 1);
    return &w->mw;
}

/* Table locked. From here on nobody finds the key. */
static void unbind(struct zs_mw *w)
{
    atomic_store(&zs_slot(w->slot)->key, 0);
    if (w->mr)
        w->mr->windows--;
    w->mr = NULL;
    zs_list_del(&w->bound);
}

int zs_dealloc_mw(struct ibv_mw *mw)
{
    struct zs_mw *w = zs_container(mw, struct zs_mw, mw);
    if (!zs_usable())
        return errno;
    pthread_mutex_lock(&zs_table_lock);
    atomic_store(&zs_slot(w->slot)->key, 0);
    zs_slot_wait(w->slot); /* the region may not go before the device has let go of the window */
    unbind(w);
    zs_slot_give(w->slot);
    pthread_mutex_unlock(&zs_table_lock);
    atomic_fetch_sub(&zs_container(mw->pd, struct zs_pd, pd)->users, 1);
    free(w);
    return 0;
}

void zs_windows_forget_qp(const struct zs_qp *qp)
{
    pthread_mutex_lock(&zs_table_lock);
    for (struct zs_list *l = windows_of_qps.next, *n; l != &windows_of_qps; l = n) {
        struct zs_mw *w = zs_container(l, struct zs_mw, bound);
        n = l->next;
        if (w->qpn == qp->qp.qp_num)
            unbind(w);
    }
    pthread_mutex_unlock(&zs_table_lock);
}

/* --- posting ------------------------------------------------------------------------------------------------------------- */

/* The bind travels in a send-queue slot: SGE 0 names the region (by lkey) and the address, the rest the WQE. */
int zs_window_fill(struct zs_qp *qp, struct zs_wqe *w, const struct ibv_mw *mw, uint32_t rkey,
                   const struct ibv_mw_bind_info *info)
{
    struct ibv_sge *s = zs_wqe_sges(qp, w);
    if (ZS_KEY_SLOT(rkey) != ZS_KEY_SLOT(mw->rkey) || info->mw_access_flags & ~(unsigned int)(REMOTE | IBV_ACCESS_ZERO_BASED))
        return EINVAL;
    *s = (struct ibv_sge){.addr = info->addr, .lkey = info->mr ? info->mr->lkey : 0};
    w->rkey = rkey;
    w->swap = info->length;
    w->compare_add = info->mw_access_flags;
    w->num_sge = 0;
    w->length = 0;
    w->imm = 0;
    return 0;
}

/* Type 1 gets its next key now, and the caller is told: posts on several queue pairs must not give the same one. */
int zs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *b)
{
    struct zs_mw *w = zs_container(mw, struct zs_mw, mw);
    struct ibv_send_wr *bad, wr = {.wr_id = b->wr_id,
                                   .opcode = IBV_WR_BIND_MW,
                                   .send_flags = b->send_flags,
                                   .bind_mw = {.mw = mw, .bind_info = b->bind_info}};
    if (qp->pd != mw->pd)
        return EPERM;
    pthread_mutex_lock(&zs_table_lock);
    wr.bind_mw.rkey = w->posted_key = ibv_inc_rkey(w->posted_key);
    pthread_mutex_unlock(&zs_table_lock);
    int e = zs_post_bind(qp, &wr, &bad);
    if (!e)
        mw->rkey = wr.bind_mw.rkey;
    return e;
}

/* --- device thread ---------------------------------------------------------------------------------------------------------- */

static struct zs_mr *region(uint32_t lkey)
{
    struct zs_mr *mr = lkey && ZS_KEY_SLOT(lkey) < ZS_MAX_MR ? zs_slot_owner(ZS_KEY_SLOT(lkey)) : NULL;
    return mr && mr->kind == ZS_OWNER_MR && atomic_load(&zs_slot(mr->slot)->key) == lkey ? mr : NULL;
}

static struct zs_mw *window(uint32_t rkey)
{
    struct zs_mw *w = rkey && ZS_KEY_SLOT(rkey) < ZS_MAX_MR ? zs_slot_owner(ZS_KEY_SLOT(rkey)) : NULL;
    return w && w->kind == ZS_OWNER_MW ? w : NULL;
}

static bool bind_valid(const struct zs_qp *qp, const struct zs_mw *w, const struct zs_mr *mr, const struct zs_wqe *q,
                       uint64_t addr)
{
    unsigned int access = (unsigned int)q->compare_add;
    if (w->mw.pd != &qp->pd->pd)
        return false;
    if (w->mw.type == IBV_MW_TYPE_1 ? (access & IBV_ACCESS_ZERO_BASED) != 0 : w->mr || !q->swap)
        return false; /* type 2: must be free, and is not freed by binding it to nothing */
    if (!q->swap)
        return true;
    if (!mr || mr->mr.pd != w->mw.pd)
        return false;
    const struct zs_mr_slot *s = zs_slot(mr->slot);
    return s->access & IBV_ACCESS_MW_BIND && !(s->access & IBV_ACCESS_ZERO_BASED) &&
           (!(access & WRITES) || s->access & IBV_ACCESS_LOCAL_WRITE) && addr >= s->iova && addr - s->iova <= s->length &&
           q->swap <= s->length - (addr - s->iova);
}

static void publish(struct zs_mw *w, struct zs_mr *mr, const struct zs_wqe *q, uint64_t addr)
{
    const struct zs_mr_slot *of = zs_slot(mr->slot);
    struct zs_mr_slot *s = zs_slot(w->slot);
    w->mr = mr;
    mr->windows++;
    s->access = q->compare_add & REMOTE;
    s->iova = q->compare_add & IBV_ACCESS_ZERO_BASED ? 0 : addr;
    s->length = q->swap;
    s->addr = of->addr + (addr - of->iova);
    s->pd = of->pd;
    s->qpn = w->qpn;
    atomic_store(&s->key, q->rkey);
}

static bool bind_window(struct zs_qp *qp, const struct zs_wqe *q)
{
    const struct ibv_sge *sge = zs_wqe_sges(qp, q);
    pthread_mutex_lock(&zs_table_lock);
    struct zs_mw *w = window(q->rkey);
    struct zs_mr *mr = region(sge->lkey);
    bool valid = w && bind_valid(qp, w, mr, q, sge->addr);
    if (valid) {
        unbind(w);
        zs_slot_last_key(w->slot, q->rkey);
        w->qpn = w->mw.type == IBV_MW_TYPE_2 ? qp->qp.qp_num : 0;
        if (q->swap)
            publish(w, mr, q, sge->addr);
        if (w->qpn)
            zs_list_add(&windows_of_qps, &w->bound);
    }
    pthread_mutex_unlock(&zs_table_lock);
    return valid;
}

bool zs_window_invalidate(const struct zs_qp *qp, uint32_t rkey)
{
    pthread_mutex_lock(&zs_table_lock);
    struct zs_mw *w = window(rkey);
    bool valid = w && w->mw.type == IBV_MW_TYPE_2 && w->mr && w->qpn == qp->qp.qp_num &&
                 atomic_load(&zs_slot(w->slot)->key) == rkey;
    if (valid)
        unbind(w);
    pthread_mutex_unlock(&zs_table_lock);
    return valid;
}

void zs_window_run(struct zs_qp *qp, struct zs_wqe *w)
{
    bool inv = w->opcode == IBV_WR_LOCAL_INV;
    if (inv ? zs_window_invalidate(qp, w->imm) : bind_window(qp, w))
        zs_requester_complete(qp, w, IBV_WC_SUCCESS);
    else
        zs_requester_fail(qp, w, inv ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_MW_BIND_ERR);
}
