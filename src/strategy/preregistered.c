/* Memory: all user buffers in one MR, registered at set-up. READs land where the user wants the bytes, and nothing else happens: the
 * ceiling that the other strategies are measured against. */
#include "pipeline_private.h"

static int preregistered_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const struct zc_buffer *const user = pipeline->params.user;
    struct ibv_mr *mr;
    const int rc = zc_mr_register(pipeline->params.device, user->address, user->length_bytes, zc_pipeline_mr_access(pipeline), "user buffers",
                                  &mr, err);
    if (rc == 0)
        pipeline->memory = mr;
    return rc;
}

static void preregistered_teardown(struct zc_pipeline *pipeline)
{
    zc_mr_deregister(pipeline->memory);
    pipeline->memory = NULL;
}

static int preregistered_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const struct ibv_mr *const mr = pipeline->memory;
    chunk->local = chunk->user;
    chunk->lkey = mr->lkey;
    return 0;
}

static int preregistered_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    (void)pipeline, (void)chunk;
    return 0;
}

const struct zc_memory_ops zc_memory_preregistered = {
    .kind = ZC_MEMORY_PREREGISTERED,
    .setup = preregistered_setup,
    .teardown = preregistered_teardown,
    .before = preregistered_before,
    .after = preregistered_after,
};
