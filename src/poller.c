/* Completions in both families: see poller.h. */
#include "poller.h"

#include <errno.h>
#include <stddef.h>

/* A CQ has the readers of what it was created for; the others are NULL. */
static void read_entry(struct ibv_cq_ex *ex, struct ibv_wc *wc)
{
    *wc = (struct ibv_wc){.wr_id = ex->wr_id, .status = ex->status};
    if (ex->read_qp_num)
        wc->qp_num = ibv_wc_read_qp_num(ex);
    if (wc->status != IBV_WC_SUCCESS) {
        wc->vendor_err = ibv_wc_read_vendor_err(ex);
        return;
    }
    wc->opcode = ibv_wc_read_opcode(ex);
    wc->wc_flags = ibv_wc_read_wc_flags(ex);
    if (ex->read_byte_len)
        wc->byte_len = ibv_wc_read_byte_len(ex);
    if (ex->read_imm_data && wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))
        wc->imm_data = ibv_wc_read_imm_data(ex);
    if (ex->read_src_qp)
        wc->src_qp = ibv_wc_read_src_qp(ex);
}

/* One at a time, without ibv_next_poll(): where that finds nothing more, librxe (rdma-core 44) has given up the lock and the entry
 * already, and the ibv_end_poll() that has to follow moves the consumer past the producer; from then on the CQ is full of garbage. */
static int poll_extended(struct ibv_cq_ex *ex, int max, struct ibv_wc *wcs)
{
    struct ibv_poll_cq_attr attr = {0};
    int count = 0, rc = 0;
    while (count < max && (rc = ibv_start_poll(ex, &attr)) == 0) {
        read_entry(ex, &wcs[count++]);
        ibv_end_poll(ex);
    }
    if (count > 0 || rc == 0 || rc == ENOENT)
        return count;   /* an error comes back with the next call */
    return rc > 0 ? -rc : -EIO;
}

int zc_poll(const struct zc_poller *poller, int max, struct ibv_wc *wcs)
{
    if (max <= 0)
        return 0;
    if (poller->ex)
        return poll_extended(poller->ex, max, wcs);
    const int count = ibv_poll_cq(poller->cq, max, wcs);
    return count >= 0 ? count : -EIO;
}
