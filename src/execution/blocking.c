/* Execution: the caller's thread does every stage of one request, whose chunks overlap. */
#include "pipeline_private.h"

static int blocking_submit(struct zc_pipeline *pipeline, struct zc_request *request)
{
    zc_pipeline_cut(pipeline, request);
    return zc_pipeline_fill(pipeline);
}

/* Before each after() - a copy, a deregistration - the wire gets new work: completions are collected, because they free slots,
 * and READs are posted into what is free. So the READ of the next chunk is in flight while this one is copied. */
static int blocking_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max)
{
    (void)max;
    for (;;) {
        int rc = zc_pipeline_collect(pipeline);
        if (rc >= 0)
            rc = zc_pipeline_fill(pipeline);
        if (rc < 0)
            return rc;
        struct zc_chunk *const chunk = zc_pipeline_next_landed(pipeline);
        rc = chunk ? zc_pipeline_finish(pipeline, chunk, done) : zc_pipeline_wait(pipeline);
        if (rc < 0)
            return rc;
        if (chunk && *done)
            return 1;
    }
}

const struct zc_execution_ops zc_execution_blocking = {
    .name = "blocking",
    .one_request = true,
    .submit = blocking_submit,
    .reap = blocking_reap,
};
