/* Execution: the caller's thread does every stage of one request, whose chunks overlap. */
#include "pipeline_private.h"

/* Whole requests are done strictly one after the other, and so are the pieces of them that are registered by themselves. */
static bool may_start(const struct zc_pipeline *pipeline)
{
    return !pipeline->whole || pipeline->free_count == pipeline->chunk_count;
}

/* Prepare and post as many chunks as records and slots allow, and one beyond the slots: a registration ahead is done when its slot
 * gets free. READs go out in one doorbell a QP - but not later than the next before(), if that takes long. */
static int fill(struct zc_pipeline *pipeline)
{
    const bool slow = pipeline->registers;
    struct zc_chunk *chunk;
    while (zc_pipeline_wants_chunks(pipeline) && may_start(pipeline) && (chunk = zc_pipeline_next_cut(pipeline))) {
        if (zc_pipeline_prepare_ready(pipeline, chunk))
            continue;
        int rc = slow ? zc_pipeline_post(pipeline) : 0;
        if (rc == 0)
            rc = zc_pipeline_prepare(pipeline, chunk);
        if (rc < 0)
            return rc;
    }
    return zc_pipeline_post(pipeline);
}

static bool nothing_to_post(const struct zc_pipeline *pipeline)
{
    return zc_ring_empty(&pipeline->cutting) && zc_ring_empty(&pipeline->ready);
}

static int blocking_submit(struct zc_pipeline *pipeline, struct zc_request *request)
{
    const int rc = zc_pipeline_cut(pipeline, request);
    return rc < 0 ? rc : fill(pipeline);
}

/* Before each after() - a copy, a deregistration - the wire gets new work: completions are collected, because they free slots,
 * and READs are posted into what is free. So the READ of the next chunk is in flight while this one is copied. */
static int blocking_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max)
{
    for (;;) {
        int rc = zc_pipeline_collect(pipeline);
        if (rc >= 0 && !nothing_to_post(pipeline))
            rc = fill(pipeline);
        if (rc < 0)
            return rc;
        struct zc_chunk *const chunk = zc_pipeline_next_landed(pipeline);
        rc = chunk ? zc_pipeline_finish(pipeline, chunk) : zc_pipeline_wait(pipeline);
        if (rc < 0)
            return rc;
        if (!zc_ring_empty(&pipeline->done))
            return zc_pipeline_take_done(pipeline, done, max);
    }
}

const struct zc_execution_ops zc_execution_blocking = {
    .kind = ZC_EXECUTION_BLOCKING,
    .one_request = true,
    .submit = blocking_submit,
    .reap = blocking_reap,
};
