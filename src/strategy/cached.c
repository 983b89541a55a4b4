/* Memory: the chunk's part of the user's buffer, registered at its first use and kept by a cache (mr_cache.h). A registration that is
 * there costs a look-up, which the pipeline's owner makes itself; one that is not is a long stage, as with registered.c. */
#include "pipeline_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "mr_cache.h"

/* As many MRs as pages fit into the limit; more would be buffers of less than a page, which share them. And those in use. */
enum { ENTRIES_MAX = 1 << 17, PAGE = 4096 };

static uint64_t cached_slots(const struct zc_pipeline *pipeline)
{
    return zc_memory_register.slots(pipeline);
}

static int cached_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const struct zc_pipeline_params *const params = &pipeline->params;
    const uint64_t bytes = params->cache_bytes ? params->cache_bytes : params->options->cache_max_bytes;
    const uint64_t pages = bytes / PAGE;
    const struct zc_mr_cache_params cache = {
        .device = params->device, .access = zc_pipeline_mr_access(pipeline), .max_bytes = bytes,
        .max_entries = (uint32_t)(pages < ENTRIES_MAX ? pages : ENTRIES_MAX) + pipeline->chunk_count,
    };
    struct zc_mr_cache *made;
    const int rc = zc_mr_cache_create(&cache, &made, err);
    if (rc == 0)
        pipeline->memory = made;
    return rc;
}

static void cached_teardown(struct zc_pipeline *pipeline)
{
    zc_mr_cache_destroy(pipeline->memory);
    pipeline->memory = NULL;
}

static void use_entry(struct zc_chunk *chunk, struct zc_mr_entry *entry)
{
    chunk->memory = entry;
    chunk->local = chunk->user;
    chunk->lkey = zc_mr_entry_lkey(entry);
}

static bool cached_ready(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    struct zc_mr_entry *const entry = zc_mr_cache_find(pipeline->memory, chunk->user, chunk->length_bytes);
    if (entry)
        use_entry(chunk, entry);
    return entry != NULL;
}

static int cached_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    struct zc_error err;
    struct zc_mr_entry *entry;
    const uint64_t before = zc_pipeline_allocations(pipeline);
    const int rc = zc_mr_cache_get(pipeline->memory, chunk->user, chunk->length_bytes, &entry, &err);
    zc_pipeline_count_registering(pipeline, before);
    if (rc < 0) {
        struct zc_mr_cache_stats stats;
        zc_mr_cache_stats(pipeline->memory, &stats);
        return zc_pipeline_fail(pipeline, err.kind, rc, "%s; this run held %" PRIu64 " registrations", err.message, stats.entries);
    }
    use_entry(chunk, entry);
    return 0;
}

static int done(struct zc_pipeline *pipeline, int rc)
{
    if (rc < 0)
        zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "deregistering cached memory failed: %s", strerror(-rc));
    return rc;
}

static int cached_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const uint64_t before = zc_pipeline_allocations(pipeline);
    const int rc = zc_mr_cache_put(pipeline->memory, chunk->memory);
    zc_pipeline_count_registering(pipeline, before);
    chunk->memory = NULL;
    return done(pipeline, rc);
}

static int cached_forget(struct zc_pipeline *pipeline, void *address, uint64_t length_bytes)
{
    const uint64_t before = zc_pipeline_allocations(pipeline);
    const int rc = zc_mr_cache_forget(pipeline->memory, address, length_bytes);
    zc_pipeline_count_registering(pipeline, before);
    return done(pipeline, rc);
}

static void cached_use(const struct zc_pipeline *pipeline, struct zc_pipeline_use *use)
{
    struct zc_mr_cache_stats stats;
    zc_mr_cache_stats(pipeline->memory, &stats);
    use->caches = true;
    use->registrations = use->cache_misses = stats.misses;
    use->cache_hits = stats.hits;
    use->cache_evictions = stats.evictions;
}

const struct zc_memory_ops zc_memory_cached = {
    .kind = ZC_MEMORY_CACHED,
    .registers = true,
    .slots = cached_slots,
    .setup = cached_setup,
    .teardown = cached_teardown,
    .before = cached_before,
    .after = cached_after,
    .ready = cached_ready,
    .forget = cached_forget,
    .use = cached_use,
};
