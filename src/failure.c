/* From a failed work completion to one sentence. Slow path of the pipeline: a run ends here. */
#include "pipeline_private.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>

enum {
    NEWS_TIMEOUT_MS = 200,              /* how long the word of a peer's end may come after the completions that it flushed */
    PORT_LOOKS = 10, PORT_PAUSE_MS = 20,
};

static const char *const status_names[] = {
    [IBV_WC_SUCCESS] = "IBV_WC_SUCCESS",
    [IBV_WC_LOC_LEN_ERR] = "IBV_WC_LOC_LEN_ERR",
    [IBV_WC_LOC_QP_OP_ERR] = "IBV_WC_LOC_QP_OP_ERR",
    [IBV_WC_LOC_EEC_OP_ERR] = "IBV_WC_LOC_EEC_OP_ERR",
    [IBV_WC_LOC_PROT_ERR] = "IBV_WC_LOC_PROT_ERR",
    [IBV_WC_WR_FLUSH_ERR] = "IBV_WC_WR_FLUSH_ERR",
    [IBV_WC_MW_BIND_ERR] = "IBV_WC_MW_BIND_ERR",
    [IBV_WC_BAD_RESP_ERR] = "IBV_WC_BAD_RESP_ERR",
    [IBV_WC_LOC_ACCESS_ERR] = "IBV_WC_LOC_ACCESS_ERR",
    [IBV_WC_REM_INV_REQ_ERR] = "IBV_WC_REM_INV_REQ_ERR",
    [IBV_WC_REM_ACCESS_ERR] = "IBV_WC_REM_ACCESS_ERR",
    [IBV_WC_REM_OP_ERR] = "IBV_WC_REM_OP_ERR",
    [IBV_WC_RETRY_EXC_ERR] = "IBV_WC_RETRY_EXC_ERR",
    [IBV_WC_RNR_RETRY_EXC_ERR] = "IBV_WC_RNR_RETRY_EXC_ERR",
    [IBV_WC_LOC_RDD_VIOL_ERR] = "IBV_WC_LOC_RDD_VIOL_ERR",
    [IBV_WC_REM_INV_RD_REQ_ERR] = "IBV_WC_REM_INV_RD_REQ_ERR",
    [IBV_WC_REM_ABORT_ERR] = "IBV_WC_REM_ABORT_ERR",
    [IBV_WC_INV_EECN_ERR] = "IBV_WC_INV_EECN_ERR",
    [IBV_WC_INV_EEC_STATE_ERR] = "IBV_WC_INV_EEC_STATE_ERR",
    [IBV_WC_FATAL_ERR] = "IBV_WC_FATAL_ERR",
    [IBV_WC_RESP_TIMEOUT_ERR] = "IBV_WC_RESP_TIMEOUT_ERR",
    [IBV_WC_GENERAL_ERR] = "IBV_WC_GENERAL_ERR",
};

static const char *status_name(enum ibv_wc_status status)
{
    const size_t known = sizeof status_names / sizeof status_names[0];
    return (size_t)status < known && status_names[status] ? status_names[status] : "unknown status";
}

static enum zc_error_kind kind_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return ZC_ERR_PEER;
    default:
        return ZC_ERR_DEVICE;
    }
}

/* A connection that has ended fails like this, and the news of its end may be a moment behind; its windows go before its QPs. */
static bool may_be_lost(enum ibv_wc_status status)
{
    return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_REM_ACCESS_ERR;
}

/* What the peer said of its end, or the end of the device, explains any status. Without a word of it, its end explains those that a
 * connection's end makes, and any other is the cause of it. */
static bool explains(int lost, enum ibv_wc_status status)
{
    return lost == -ESHUTDOWN || lost == -ENODEV || (lost < 0 && (status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR));
}

/* On Soft-RoCE packets have no way any more a moment before the port says that it is down. */
static const char *port_note(const struct zc_pipeline *pipeline, enum ibv_wc_status status, char text[ZC_PORT_NOTE_MAX])
{
    const int looks = status == IBV_WC_LOC_QP_OP_ERR ? PORT_LOOKS : 1;
    for (int i = 0; i < looks && !*zc_device_port_note(pipeline->params.device, text); i++)
        if (i + 1 < looks)
            poll(NULL, 0, PORT_PAUSE_MS);
    return text;
}

int zc_pipeline_fail_completion(struct zc_pipeline *pipeline, const struct ibv_wc *wc)
{
    struct zc_connection *const connection = pipeline->params.connection;
    struct zc_error lost;
    int rc = zc_connection_check(connection, &lost);
    struct pollfd news = {.fd = zc_connection_fd(connection), .events = POLLIN};
    if (rc == 0 && may_be_lost(wc->status) && news.fd >= 0 && poll(&news, 1, NEWS_TIMEOUT_MS) > 0)
        rc = zc_connection_check(connection, &lost);
    if (explains(rc, wc->status))
        return zc_pipeline_fail(pipeline, lost.kind, rc, "%s", lost.message);

    /* Of a failed completion only wr_id, status, qp_num and vendor_err are valid (ibv_poll_cq(3)). */
    const char *const text = ibv_wc_status_str(wc->status), *const name = status_name(wc->status);
    if (wc->wr_id == ZC_CONTROL_WR_ID)
        return zc_pipeline_fail(pipeline, kind_of(wc->status), -EIO, "the connection failed: %s (%s)", text, name);
    const uint32_t index = zc_wr_chunk(wc->wr_id), number = zc_wr_number(wc->wr_id);
    if (index >= pipeline->chunk_count || number >= pipeline->reads_per_chunk)
        return zc_pipeline_fail(pipeline, ZC_ERR_INTERNAL, -EIO, "a completion of no READ of ours: %s (%s)", text, name);
    const struct zc_read *const read = &pipeline->chunks[index].wrs[number];
    char note[ZC_PORT_NOTE_MAX];
    return zc_pipeline_fail(pipeline, kind_of(wc->status), -EIO, "READ of %" PRIu32 " bytes at offset %" PRIu64 " failed%s: %s (%s)%s",
                            read->sge.length, read->wr.wr.rdma.remote_addr - pipeline->remote.address,
                            kind_of(wc->status) == ZC_ERR_PEER ? " at the peer" : "", text, name,
                            port_note(pipeline, wc->status, note));
}
