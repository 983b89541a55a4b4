/* Memory: a staging pool, one MR registered once and cut into slots. A READ lands in a slot and is copied out after its completion.
 * Slot and chunk record go together, so taking a record takes the slot. */
#include "pipeline_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How many slots? Enough bytes in flight to cover a NIC's latency - 400 Gb/s for 20 us is 1 MB - and twice that, because a slot is
 * taken while it is copied from; not more, because what is read must still be in a cache when it is copied. With few large chunks at
 * least four: one lands, one flies, one waits, one is copied. On the software device 2 to 16 slots of 256 KiB do not differ beyond
 * their noise (tests/bench, overlap), and records are reused last in, first out, so that slots without use are not touched. */
enum { CACHE_LINE = 64, MIN_SLOTS = 4, USEFUL_BYTES = 2 << 20 };

struct staging {
    struct zc_buffer buffer;
    struct ibv_mr *mr;
    uint64_t stride_bytes;      /* of a slot: no two share a cache line */
};

static uint64_t staging_slots(const struct zc_pipeline *pipeline)
{
    if (pipeline->params.options->mr_count > 0)
        return pipeline->params.options->mr_count;
    /* One beyond what may be in flight is the one being copied; a copying thread has one in hand and one waiting. */
    const uint64_t most = UINT64_C(1) + pipeline->slot_count + 2 * zc_hands_count(&pipeline->hands);
    uint64_t slots = USEFUL_BYTES / pipeline->copy_chunk_bytes;
    if (slots < MIN_SLOTS)
        slots = MIN_SLOTS;
    slots += 2 * zc_hands_count(&pipeline->hands);
    return slots < most ? slots : most;
}

static int staging_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    struct staging *const staging = calloc(1, sizeof *staging);
    if (!staging)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a staging pool");
    pipeline->memory = staging;
    staging->stride_bytes = (pipeline->copy_chunk_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    const int rc = zc_buffer_create_pages(pipeline->chunk_count * staging->stride_bytes,
                                          (enum zc_pages)pipeline->params.options->pages, pipeline->params.numa_node,
                                          &staging->buffer, err);
    if (rc < 0)
        return rc;
    pipeline->staging_huge_bytes = zc_buffer_huge_bytes(&staging->buffer);
    return zc_mr_register(pipeline->params.device, staging->buffer.address, staging->buffer.length_bytes, zc_pipeline_mr_access(pipeline),
                          "staging memory", &staging->mr, err);
}

static void staging_teardown(struct zc_pipeline *pipeline)
{
    struct staging *const staging = pipeline->memory;
    if (!staging)
        return;
    zc_mr_deregister(staging->mr);
    zc_buffer_destroy(&staging->buffer);
    free(staging);
    pipeline->memory = NULL;
}

static uint8_t *slot_of(const struct staging *staging, const struct zc_chunk *chunk)
{
    return (uint8_t *)staging->buffer.address + chunk->index * staging->stride_bytes;
}

static int staging_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const struct staging *const staging = pipeline->memory;
    chunk->local = slot_of(staging, chunk);
    chunk->lkey = staging->mr->lkey;
    return 0;
}

/* To its piece of the user's memory, and to those behind it as far as it reaches. */
static int staging_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const struct zc_piece *piece = chunk->piece;
    const uint8_t *from = chunk->local;
    uint64_t left = chunk->length_bytes, at = chunk->piece_bytes;
    (void)pipeline;
    for (; left > 0; piece++, at = 0) {
        const uint64_t rest = piece->length_bytes - at, part = left < rest ? left : rest;
        memcpy(piece->address + at, from, part);
        from += part;
        left -= part;
    }
    return 0;
}

const struct zc_memory_ops zc_memory_staging = {
    .kind = ZC_MEMORY_STAGING,
    .copies = true,
    .slots = staging_slots,
    .setup = staging_setup,
    .teardown = staging_teardown,
    .before = staging_before,
    .after = staging_after,
};
