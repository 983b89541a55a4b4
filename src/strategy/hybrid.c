/* Memory: staging for requests below options.threshold, the user's own, registered, for the others. A run's requests are all of one
 * size and so of one kind; an application's may be of both, and then no more chunks are alive than there are staging slots. */
#include "pipeline_private.h"

static uint64_t hybrid_copies_below(const struct zc_pipeline *pipeline)
{
    return pipeline->params.options->threshold_bytes;
}

static bool needs_staging(const struct zc_pipeline *pipeline)
{
    return pipeline->params.least_bytes < pipeline->copy_below_bytes;
}

static uint64_t hybrid_slots(const struct zc_pipeline *pipeline)
{
    return needs_staging(pipeline) ? zc_memory_staging.slots(pipeline) : zc_memory_register.slots(pipeline);
}

static int hybrid_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    return needs_staging(pipeline) ? zc_memory_staging.setup(pipeline, err) : 0;
}

static void hybrid_teardown(struct zc_pipeline *pipeline)
{
    zc_memory_register.teardown(pipeline);
    zc_memory_staging.teardown(pipeline);
}

static const struct zc_memory_ops *memory_of(const struct zc_chunk *chunk)
{
    return chunk->request->copies ? &zc_memory_staging : &zc_memory_register;
}

static int hybrid_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    return memory_of(chunk)->before(pipeline, chunk);
}

static int hybrid_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    return memory_of(chunk)->after(pipeline, chunk);
}

const struct zc_memory_ops zc_memory_hybrid = {
    .kind = ZC_MEMORY_HYBRID,
    .copies = true,
    .registers = true,
    .deregisters = true,
    .copies_below = hybrid_copies_below,
    .slots = hybrid_slots,
    .setup = hybrid_setup,
    .teardown = hybrid_teardown,
    .before = hybrid_before,
    .after = hybrid_after,
};
