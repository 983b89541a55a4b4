/* Memory: the chunk's part of the user's buffer, registered just before its READ and deregistered just after. */
#include "pipeline_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* As many as may be in flight, one registered ahead, and two for each thread that registers or deregisters: one in its hands, one
 * waiting for it. */
static uint64_t registered_slots(const struct zc_pipeline *pipeline)
{
    return UINT64_C(1) + pipeline->slot_count + 2 * zc_hands_count(&pipeline->hands);
}

static int registered_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    (void)pipeline, (void)err;
    return 0;
}

/* What a run that ended early still holds. The execution's threads are gone, and so are the QPs. */
static void registered_teardown(struct zc_pipeline *pipeline)
{
    for (uint32_t i = 0; pipeline->chunks && i < pipeline->chunk_count; i++) {
        zc_mr_deregister(pipeline->chunks[i].memory);
        pipeline->chunks[i].memory = NULL;
    }
}

static int registered_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    struct zc_error err;
    struct ibv_mr *mr;
    const uint64_t before = zc_pipeline_allocations(pipeline);
    const int rc = zc_mr_register(pipeline->params.device, chunk->user, chunk->length_bytes, zc_pipeline_mr_access(pipeline),
                                  "the user's buffer", &mr, &err);
    zc_pipeline_count_registering(pipeline, before);
    if (rc < 0)
        return zc_pipeline_fail(pipeline, err.kind, rc, "%s; this run held %" PRIu64 " registrations", err.message,
                                (uint64_t)atomic_load_explicit(&pipeline->registered, memory_order_relaxed));
    atomic_fetch_add_explicit(&pipeline->registered, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&pipeline->registrations, 1, memory_order_relaxed);
    chunk->memory = mr;
    chunk->local = chunk->user;
    chunk->lkey = mr->lkey;
    return 0;
}

static int registered_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const uint64_t before = zc_pipeline_allocations(pipeline);
    const int rc = zc_mr_deregister(chunk->memory);
    zc_pipeline_count_registering(pipeline, before);
    if (rc < 0)
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "deregistering %" PRIu64 " bytes failed: %s", chunk->length_bytes,
                                strerror(-rc));
    atomic_fetch_sub_explicit(&pipeline->registered, 1, memory_order_relaxed);
    chunk->memory = NULL;
    return 0;
}

const struct zc_memory_ops zc_memory_register = {
    .kind = ZC_MEMORY_REGISTER,
    .registers = true,
    .deregisters = true,
    .slots = registered_slots,
    .setup = registered_setup,
    .teardown = registered_teardown,
    .before = registered_before,
    .after = registered_after,
};
