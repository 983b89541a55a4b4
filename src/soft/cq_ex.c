/* The extended CQ: ibv_start_poll/next_poll/end_poll and the readers of the current entry. Between start and end the
 * poller holds the CQ's spinlock. */
#include <errno.h>

#include "soft.h"

static struct zs_cq *cq_of(struct ibv_cq_ex *ex)
{
    return zs_container(ex, struct zs_cq, ex);
}

static const struct zs_cqe *current(struct ibv_cq_ex *ex)
{
    struct zs_cq *cq = cq_of(ex);
    return &cq->ring[atomic_load_explicit(&cq->head, memory_order_relaxed) & cq->mask];
}

static int load_entry(struct ibv_cq_ex *ex)
{
    struct zs_cq *cq = cq_of(ex);
    if (atomic_load_explicit(&cq->tail, memory_order_acquire) == atomic_load_explicit(&cq->head, memory_order_relaxed))
        return ENOENT;
    const struct zs_cqe *e = current(ex);
    ex->wr_id = e->wr_id;
    ex->status = e->status;
    return 0;
}

static void advance(struct zs_cq *cq)
{
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    zs_cqe_retire(&cq->ring[head & cq->mask]);
    atomic_store_explicit(&cq->head, head + 1, memory_order_release);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    if (attr->comp_mask)
        return EINVAL;
    if (zs_cq_empty(cq_of(ex)))
        return ENOENT;
    zs_spin_lock(&cq_of(ex)->lock);
    int r = load_entry(ex);
    if (r)
        zs_spin_unlock(&cq_of(ex)->lock);
    return r;
}

/* The entry before is given up only now: its fields stay readable until the next call. When there is none, end_poll
 * must not retire it again. */
static int next_poll(struct ibv_cq_ex *ex)
{
    struct zs_cq *cq = cq_of(ex);
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    if (atomic_load_explicit(&cq->tail, memory_order_acquire) == head + 1)
        return ENOENT;
    advance(cq);
    return load_entry(ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
    advance(cq_of(ex));
    zs_spin_unlock(&cq_of(ex)->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return current(ex)->opcode;
}

static uint32_t read_zero32(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static uint8_t read_zero8(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return current(ex)->byte_len;
}

static __be32 read_imm(struct ibv_cq_ex *ex)
{
    return current(ex)->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return current(ex)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return current(ex)->src_qp;
}

static unsigned int read_flags(struct ibv_cq_ex *ex)
{
    return current(ex)->wc_flags;
}

void zs_cq_ex_setup(struct zs_cq *cq)
{
    struct ibv_cq_ex *ex = &cq->ex;
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_zero32;
    ex->read_byte_len = read_byte_len;
    ex->read_imm_data = read_imm;
    ex->read_qp_num = read_qp_num;
    ex->read_src_qp = read_src_qp;
    ex->read_wc_flags = read_flags;
    ex->read_slid = read_zero32;
    ex->read_sl = read_zero8;
    ex->read_dlid_path_bits = read_zero8;
}

struct ibv_cq_ex *zs_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr)
{
    if (attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS || attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) {
        errno = EOPNOTSUPP; /* no timestamps, VLANs or tags on this device */
        return NULL;
    }
    const uint32_t known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~known) ||
        attr->comp_vector >= (uint32_t)c->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct zs_cq *cq = zs_cq_new(c, attr->cqe, attr->cq_context, attr->channel);
    if (!cq)
        return NULL;
    zs_cq_ex_setup(cq);
    return &cq->ex;
}
