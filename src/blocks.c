/* The blocks that every execution is built from: cut, post, collect, retire. They are the data path: no allocation, no lock, and no
 * system call but those of the provider's doorbell. The pipeline's owner calls them, and nobody else. */
#include "pipeline_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- cutting --------------------------------------------------------------------------------------------------- */

static uint32_t count_chunks(uint64_t length, uint64_t chunk)
{
    return length <= chunk ? length > 0 : (uint32_t)((length + chunk - 1) / chunk);
}

/* The pieces of a request, and how many chunks they are: staging memory is cut where it likes, a piece of its own is registered and
 * read into by itself. */
static int lay_out(struct zc_pipeline *pipeline, struct zc_request *request)
{
    const uint64_t size = pipeline->params.options->size_bytes;
    uint64_t sum = 0, chunks = 0;
    request->all_bytes = request->length_bytes ? request->length_bytes : size;
    request->copies = request->all_bytes < pipeline->copy_below_bytes;
    request->whole = (struct zc_piece){request->user, request->all_bytes};
    request->cut_piece = request->piece_count ? request->pieces : &request->whole;
    const uint32_t pieces = request->piece_count ? request->piece_count : 1;
    for (uint32_t i = 0; i < pieces; i++) {
        sum += request->cut_piece[i].length_bytes;
        chunks += count_chunks(request->cut_piece[i].length_bytes, pipeline->direct_chunk_bytes);
    }
    if (sum != request->all_bytes || sum > size)
        return zc_pipeline_fail(pipeline, ZC_ERR_INVALID, -EINVAL, "a request of %" PRIu64 " bytes in %" PRIu32 " pieces of %" PRIu64
                                " in all: the pipeline was made for at most %" PRIu64, request->all_bytes, pieces, sum, size);
    request->landing = request->copies ? count_chunks(sum, pipeline->copy_chunk_bytes) : (uint32_t)chunks;
    request->finishing = request->landing;
    return 0;
}

int zc_pipeline_cut(struct zc_pipeline *pipeline, struct zc_request *request)
{
    const int rc = lay_out(pipeline, request);
    if (rc < 0)
        return rc;
    request->cut_bytes = request->cut_piece_bytes = 0;
    request->cut_chunks = 0;
    request->finished_ns = 0;
    request->number = pipeline->submitted++;
    if (zc_pipeline_tracing(pipeline))
        zc_trace_request(pipeline, ZC_TRACE_SUBMITTED, request);
    zc_ring_push(&pipeline->cutting, (uint32_t)(request - pipeline->requests));
    return 0;
}

/* Where the next chunk begins: not behind the end of a piece. */
static inline const struct zc_piece *next_piece(struct zc_request *request)
{
    while (request->cut_piece_bytes == request->cut_piece->length_bytes) {
        request->cut_piece++;
        request->cut_piece_bytes = 0;
    }
    return request->cut_piece;
}

/* Rare, and so out of the way of what is not. */
static __attribute__((noinline)) void advance_over_pieces(struct zc_request *request, uint64_t length)
{
    while (length > 0) {
        const uint64_t part = min_u64(length, next_piece(request)->length_bytes - request->cut_piece_bytes);
        request->cut_piece_bytes += part;
        length -= part;
    }
}

/* A chunk for staging memory may reach over several pieces; mostly it stays in its own. */
static inline void advance(struct zc_request *request, uint64_t length)
{
    request->cut_bytes += length;
    if (length <= request->cut_piece->length_bytes - request->cut_piece_bytes)
        request->cut_piece_bytes += length;
    else
        advance_over_pieces(request, length);
}

struct zc_chunk *zc_pipeline_next_cut(struct zc_pipeline *pipeline)
{
    if (zc_ring_empty(&pipeline->cutting) || pipeline->free_count == 0)
        return NULL;
    struct zc_chunk *const chunk = &pipeline->chunks[pipeline->free_chunks[--pipeline->free_count]];
    struct zc_request *const request = &pipeline->requests[zc_ring_first(&pipeline->cutting)];
    chunk->state = ZC_CHUNK_PREPARING;
    chunk->request = request;
    chunk->number = request->cut_chunks++;
    chunk->piece = next_piece(request);
    chunk->piece_bytes = request->cut_piece_bytes;
    chunk->user = chunk->piece->address + chunk->piece_bytes;
    if (request->copies)
        chunk->length_bytes = min_u64(request->all_bytes - request->cut_bytes, pipeline->copy_chunk_bytes);
    else
        chunk->length_bytes = min_u64(chunk->piece->length_bytes - chunk->piece_bytes, pipeline->direct_chunk_bytes);
    chunk->remote_offset = request->remote_offset + request->cut_bytes;
    chunk->reads_posted = chunk->reads_landed = 0;
    chunk->reads = 1;
    if (chunk->length_bytes > pipeline->max_read_bytes)
        chunk->reads = (uint32_t)((chunk->length_bytes + pipeline->max_read_bytes - 1) / pipeline->max_read_bytes);
    advance(request, chunk->length_bytes);
    if (request->cut_bytes == request->all_bytes)
        zc_ring_pop(&pipeline->cutting);
    return chunk;
}

bool zc_pipeline_ask_ready(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    zc_lap(pipeline, ZC_STAGE_POST);
    const bool ready = pipeline->ops->ready(pipeline, chunk);
    zc_lap(pipeline, ZC_STAGE_BEFORE);
    if (ready)
        zc_pipeline_prepared(pipeline, chunk);
    return ready;
}

/* --- posting --------------------------------------------------------------------------------------------------- */

/* The next QP in turn that has a free slot; there is one. */
static inline struct zc_lane *free_lane(struct zc_pipeline *pipeline)
{
    struct zc_lane *lane = pipeline->next_lane;
    while (zc_slots_free(&lane->slots) == 0)
        lane = lane->next;
    pipeline->next_lane = lane->next;
    return lane;
}

static inline void append_read(struct zc_pipeline *pipeline, struct zc_lane *lane, struct zc_chunk *chunk)
{
    const uint32_t number = chunk->reads_posted++;
    const uint64_t at = number * pipeline->max_read_bytes;
    struct zc_read *const read = &chunk->wrs[number];
    read->sge.addr = (uintptr_t)(chunk->local + at);
    read->sge.length = (uint32_t)min_u64(chunk->length_bytes - at, pipeline->max_read_bytes);
    read->sge.lkey = chunk->lkey;
    read->wr.wr.rdma.remote_addr = pipeline->remote.address + chunk->remote_offset + at;
    read->wr.wr.rdma.rkey = lane->rkey;
    read->lane = lane;
    *lane->tail = &read->wr;
    lane->tail = &read->wr.next;
    lane->slots.used++;
    chunk->state = ZC_CHUNK_POSTED;
    pipeline->posted++;
}

/* Take slots for the READs of READY chunks, in their order, as long as there are any. */
static inline void append(struct zc_pipeline *pipeline)
{
    if (pipeline->posted == 0)
        pipeline->watch.since_ns = 0;
    while (!zc_ring_empty(&pipeline->ready) && pipeline->posted < pipeline->slot_count) {
        struct zc_chunk *const chunk = &pipeline->chunks[zc_ring_first(&pipeline->ready)];
        append_read(pipeline, free_lane(pipeline), chunk);
        if (chunk->reads_posted == chunk->reads)
            zc_ring_pop(&pipeline->ready);
    }
}

static int ring_doorbell(struct zc_pipeline *pipeline, struct zc_lane *lane)
{
    struct ibv_send_wr *const list = lane->first;
    *lane->tail = NULL;
    lane->tail = &lane->first;
    const int rc = zc_pipeline_tracing(pipeline) ? zc_traced_post(pipeline, &lane->sender, list)
                                                 : zc_sender_post(&lane->sender, list, NULL, NULL);
    if (rc < 0)     /* slots are counted, so this is never a queue that happens to be full */
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "posting a READ was refused: %s", strerror(-rc));
    return 0;
}

int zc_pipeline_post(struct zc_pipeline *pipeline)
{
    append(pipeline);
    struct zc_lane *lane = pipeline->lanes;
    do {
        const int rc = lane->tail != &lane->first ? ring_doorbell(pipeline, lane) : 0;
        if (rc < 0)
            return rc;
    } while ((lane = lane->next) != pipeline->lanes);
    zc_lap(pipeline, ZC_STAGE_POST);
    return 0;
}

/* --- completions ----------------------------------------------------------------------------------------------- */

static int land(struct zc_pipeline *pipeline, const struct ibv_wc *wc)
{
    const uint32_t index = zc_wr_chunk(wc->wr_id), number = zc_wr_number(wc->wr_id);
    if (wc->status != IBV_WC_SUCCESS)
        return zc_pipeline_fail_completion(pipeline, wc);
    if (wc->wr_id == ZC_CONTROL_WR_ID)
        return 0;       /* an ALIVE of the set-up */
    if (index >= pipeline->chunk_count || number >= pipeline->reads_per_chunk || pipeline->chunks[index].state != ZC_CHUNK_POSTED)
        return zc_pipeline_fail(pipeline, ZC_ERR_INTERNAL, -EIO, "a completion of no READ in flight: wr_id %" PRIu64, wc->wr_id);
    struct zc_chunk *const chunk = &pipeline->chunks[index];
    zc_slots_give(&chunk->wrs[number].lane->slots, 1);
    pipeline->posted--;
    if (++chunk->reads_landed < chunk->reads)
        return 0;
    chunk->state = ZC_CHUNK_LANDED;
    if (zc_pipeline_tracing(pipeline))
        zc_trace_chunk(pipeline, ZC_TRACE_COMPLETED, chunk, zc_now_ns(), 0);
    zc_ring_push(&pipeline->landed, index);
    if (--chunk->request->landing == 0 && !chunk->request->copies)
        chunk->request->available_ns = zc_now_ns();
    return 0;
}

int zc_pipeline_fail_cancelled(struct zc_pipeline *pipeline)
{
    return zc_pipeline_fail(pipeline, ZC_ERR_CANCELLED, -ECANCELED, "cancelled");
}

int zc_pipeline_poll(struct zc_pipeline *pipeline)
{
    const int count = zc_completion_poll(pipeline->params.completion, ZC_POLL_BATCH, pipeline->wcs);
    if (count < 0)
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, count, "polling the completion queue failed: %s", strerror(-count));
    if (count > 0)
        pipeline->watch.since_ns = 0;
    for (int i = 0; i < count; i++) {
        const int rc = land(pipeline, &pipeline->wcs[i]);
        if (rc < 0)
            return rc;
    }
    return count;
}

/* --- finishing ------------------------------------------------------------------------------------------------- */

void zc_pipeline_done(struct zc_pipeline *pipeline, struct zc_request *request)
{
    const struct zc_memory_ops *const memory = pipeline->ops;
    /* One time serves both, unless something was left to do after the bytes were there. */
    if (request->copies)
        request->available_ns = request->finished_ns;
    if (zc_pipeline_tracing(pipeline))
        zc_trace_request(pipeline, ZC_TRACE_RECLAIMED, request);
    request->reclaimed_ns = request->copies || !memory->deregisters ? request->available_ns : request->finished_ns;
    zc_ring_push(&pipeline->done, (uint32_t)(request - pipeline->requests));
}

int zc_pipeline_take_done(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && !zc_ring_empty(&pipeline->done))
        done[count++] = &pipeline->requests[zc_ring_pop(&pipeline->done)];
    return (int)count;
}
