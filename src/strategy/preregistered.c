/* Memory: all user buffers in one MR, registered at set-up. READs land where the user wants the bytes, and nothing else happens. Pinned,
 * it is the ceiling that the other strategies are measured against. On demand (IBV_ACCESS_ON_DEMAND, ibv_reg_mr(3)) nothing is pinned:
 * what the pages cost is paid when the device first touches them, within the READ. */
#include "pipeline_private.h"

#include <errno.h>

static int register_all(struct zc_pipeline *pipeline, int access, const char *what, struct zc_error *err)
{
    const struct zc_buffer *const user = pipeline->params.user;
    struct ibv_mr *mr;
    const int rc = zc_mr_register(pipeline->params.device, user->address, user->length_bytes, zc_pipeline_mr_access(pipeline) | access,
                                  what, &mr, err);
    if (rc == 0)
        pipeline->memory = mr;
    return rc;
}

static int preregistered_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    return register_all(pipeline, 0, "user buffers", err);
}

static int odp_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const struct zc_device *const device = pipeline->params.device;
    if (device && !zc_device_info(device)->odp)
        return zc_error_set(err, ZC_ERR_DEVICE, -EOPNOTSUPP, "strategy", "%s: the device %s has no on-demand paging (ODP)",
                            pipeline->strategy->info->name, zc_device_info(device)->name);
    return register_all(pipeline, IBV_ACCESS_ON_DEMAND, "user buffers on demand", err);
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

const struct zc_memory_ops zc_memory_odp = {
    .kind = ZC_MEMORY_ODP,
    .setup = odp_setup,
    .teardown = preregistered_teardown,
    .before = preregistered_before,
    .after = preregistered_after,
};
