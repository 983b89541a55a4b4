/* Set-up of the pipeline and the blocks that every execution is built from. The blocks are the data path: no allocation, no
 * lock, and no system call but those of the provider's doorbell and, with --wait event, of sleeping. */
#include "pipeline_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "completion.h"

/* --- set-up ---------------------------------------------------------------------------------------------------- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t chunk_limit(const struct zc_pipeline_params *params)
{
    switch (params->strategy->chunking) {
    case ZC_CHUNK_MR_SIZE:
        return params->options->mr_size_bytes;
    case ZC_CHUNK_WHOLE:
    case ZC_CHUNK_CHUNK_SIZE:   /* its option comes with the strategies that take it */
        break;
    }
    return UINT64_MAX;
}

/* How a request is cut, and how many chunks may be alive at once. */
static int plan(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const struct zc_pipeline_params *const params = &pipeline->params;
    const uint64_t size = params->options->size_bytes;
    const uint64_t max_read = min_u64(zc_connection_max_read_bytes(params->connection), INT32_MAX);
    pipeline->chunk_bytes = min_u64(min_u64(chunk_limit(params), max_read), size);
    const uint64_t chunks = (size + pipeline->chunk_bytes - 1) / pipeline->chunk_bytes;
    if (chunks > UINT32_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "mr_size", "%" PRIu64 " bytes cut into chunks of %" PRIu64
                            " are more than %u chunks", size, pipeline->chunk_bytes, UINT32_MAX);
    pipeline->chunks_per_request = (uint32_t)chunks;

    uint64_t wanted = 0;
    for (uint32_t i = 0; i < pipeline->lane_count; i++)
        wanted += pipeline->lanes[i].slots.capacity;
    if (pipeline->strategy->memory->slots)
        wanted = pipeline->strategy->memory->slots(pipeline);
    pipeline->chunk_count = (uint32_t)min_u64(wanted ? wanted : 1, min_u64(chunks * params->depth, UINT32_MAX));
    return 0;
}

static int create_lanes(struct zc_pipeline *pipeline, struct zc_error *err)
{
    struct zc_connection *const connection = pipeline->params.connection;
    pipeline->lane_count = zc_connection_qp_count(connection);
    pipeline->lanes = calloc(pipeline->lane_count, sizeof *pipeline->lanes);
    if (!pipeline->lanes)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %" PRIu32 " QPs", pipeline->lane_count);
    /* No more READs than the responder keeps resources for: what is beyond them would wait in the send queue, in an order that
     * --qps could not spread any more. Slots are never more than were asked for, whatever the provider rounded up to. */
    const uint32_t outstanding = zc_connection_outstanding_reads(connection);
    const uint32_t slots = pipeline->params.send_slots;
    for (uint32_t i = 0; i < pipeline->lane_count; i++) {
        pipeline->lanes[i].qp = zc_connection_qp(connection, i);
        pipeline->lanes[i].slots.capacity = outstanding < slots ? outstanding : slots;
    }
    return 0;
}

static int create_ring(struct zc_ring *ring, uint32_t capacity)
{
    ring->items = calloc(capacity, sizeof *ring->items);
    ring->capacity = capacity;
    return ring->items ? 0 : -ENOMEM;
}

static void build_chunk(struct zc_pipeline *pipeline, uint32_t index)
{
    struct zc_chunk *const chunk = &pipeline->chunks[index];
    chunk->index = index;
    zc_wr_read(&pipeline->wrs[index], index, &chunk->sge, 1, 0, pipeline->remote.rkey, IBV_SEND_SIGNALED);
    pipeline->free_chunks[index] = pipeline->chunk_count - 1 - index;   /* record 0 on top */
}

static int create_arrays(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const uint32_t count = pipeline->chunk_count;
    pipeline->requests = calloc(pipeline->params.depth, sizeof *pipeline->requests);
    pipeline->chunks = calloc(count, sizeof *pipeline->chunks);
    pipeline->wrs = calloc(count, sizeof *pipeline->wrs);
    pipeline->free_chunks = calloc(count, sizeof *pipeline->free_chunks);
    if (!pipeline->requests || !pipeline->chunks || !pipeline->wrs || !pipeline->free_chunks ||
        create_ring(&pipeline->cutting, pipeline->params.depth) < 0 || create_ring(&pipeline->landed, count) < 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %" PRIu32 " requests and %" PRIu32 " chunks",
                            pipeline->params.depth, count);
    pipeline->free_count = count;
    for (uint32_t i = 0; i < count; i++)
        build_chunk(pipeline, i);
    return 0;
}

static int create_parts(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const struct zc_execution_ops *const execution = pipeline->strategy->execution;
    int rc = create_lanes(pipeline, err);
    if (rc == 0)
        rc = plan(pipeline, err);
    if (rc == 0)
        rc = create_arrays(pipeline, err);
    if (rc == 0)
        rc = pipeline->strategy->memory->setup(pipeline, err);
    if (rc == 0 && execution->setup)
        rc = execution->setup(pipeline, err);
    return rc;
}

int zc_pipeline_create(const struct zc_pipeline_params *params, struct zc_pipeline **pipeline, struct zc_error *err)
{
    struct zc_pipeline *const made = calloc(1, sizeof *made);
    if (!made)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a pipeline");
    made->strategy = params->strategy;
    made->params = *params;
    if (made->params.stuck_ns == 0)
        made->params.stuck_ns = UINT64_C(10000000000);
    made->wait = (enum zc_wait)params->options->wait;
    made->remote = *zc_connection_remote(params->connection);

    const int rc = create_parts(made, err);
    if (rc < 0) {
        zc_pipeline_destroy(made);
        return rc;
    }
    *pipeline = made;
    return 0;
}

void zc_pipeline_destroy(struct zc_pipeline *pipeline)
{
    if (!pipeline)
        return;
    if (pipeline->strategy->execution->teardown)
        pipeline->strategy->execution->teardown(pipeline);
    pipeline->strategy->memory->teardown(pipeline);
    free(pipeline->landed.items);
    free(pipeline->cutting.items);
    free(pipeline->free_chunks);
    free(pipeline->wrs);
    free(pipeline->chunks);
    free(pipeline->requests);
    free(pipeline->lanes);
    free(pipeline);
}

/* --- for the caller -------------------------------------------------------------------------------------------- */

struct zc_request *zc_pipeline_request(struct zc_pipeline *pipeline, uint32_t index)
{
    return &pipeline->requests[index];
}

int zc_pipeline_submit(struct zc_pipeline *pipeline, struct zc_request *request)
{
    return pipeline->strategy->execution->submit(pipeline, request);
}

int zc_pipeline_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max)
{
    return pipeline->strategy->execution->reap(pipeline, done, max);
}

const struct zc_error *zc_pipeline_error(const struct zc_pipeline *pipeline)
{
    return &pipeline->error;
}

void zc_pipeline_set_wait(struct zc_pipeline *pipeline, enum zc_wait wait)
{
    pipeline->wait = wait;
}

void zc_pipeline_time_stages(struct zc_pipeline *pipeline, bool on)
{
    pipeline->laps = (struct zc_laps){.on = on, .last_ns = on ? zc_now_ns() : 0};
}

void zc_pipeline_skip_ns(struct zc_pipeline *pipeline, uint64_t duration_ns)
{
    pipeline->laps.last_ns += duration_ns;
}

uint64_t zc_pipeline_stage_ns(const struct zc_pipeline *pipeline, enum zc_stage stage)
{
    return pipeline->laps.stage_ns[stage];
}

void zc_pipeline_terms(const struct zc_pipeline *pipeline, struct zc_terms *terms)
{
    const bool staging = pipeline->strategy->memory->copies;
    terms->chunk_bytes = pipeline->chunk_bytes;
    terms->chunks = pipeline->chunks_per_request;
    terms->staging_slots = staging ? pipeline->chunk_count : 0;
    terms->staging_bytes = staging ? pipeline->chunk_count * pipeline->chunk_bytes : 0;
    terms->qps = pipeline->lane_count;
    terms->outstanding_reads = zc_connection_outstanding_reads(pipeline->params.connection);
    terms->max_read_bytes = zc_connection_max_read_bytes(pipeline->params.connection);
}

int zc_pipeline_fail(struct zc_pipeline *pipeline, enum zc_error_kind kind, int errnum, const char *format, ...)
{
    if (pipeline->error.kind != ZC_ERR_NONE)
        return pipeline->error.errnum;
    char text[ZC_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return zc_error_set(&pipeline->error, kind, errnum, NULL, "%s", text);
}

/* --- blocks of an execution ------------------------------------------------------------------------------------ */

void zc_pipeline_cut(struct zc_pipeline *pipeline, struct zc_request *request)
{
    request->cut_bytes = 0;
    request->landing = request->finishing = pipeline->chunks_per_request;
    zc_ring_push(&pipeline->cutting, (uint32_t)(request - pipeline->requests));
}

/* The next QP in turn that has a free slot, or NULL. */
static struct zc_lane *free_lane(struct zc_pipeline *pipeline)
{
    for (uint32_t tried = 0; tried < pipeline->lane_count; tried++) {
        struct zc_lane *const lane = &pipeline->lanes[pipeline->next_lane];
        pipeline->next_lane = pipeline->next_lane + 1 < pipeline->lane_count ? pipeline->next_lane + 1 : 0;
        if (zc_slots_free(&lane->slots) > 0)
            return lane;
    }
    return NULL;
}

static int ring_doorbell(struct zc_pipeline *pipeline, struct zc_lane *lane)
{
    size_t accepted = 0;
    struct ibv_send_wr *const list = lane->first;
    lane->first = lane->last = NULL;
    const int rc = zc_post_send(lane->qp, list, &accepted, NULL);
    if (rc < 0)     /* slots are counted, so this is never a queue that happens to be full */
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "posting a READ was refused: %s", strerror(-rc));
    return 0;
}

/* Give the next bytes of the oldest request to `chunk`; its before() may still refuse. */
static void cut_chunk(struct zc_pipeline *pipeline, struct zc_chunk *chunk, struct zc_request *request)
{
    const uint64_t left = pipeline->params.options->size_bytes - request->cut_bytes;
    chunk->length_bytes = (uint32_t)min_u64(left, pipeline->chunk_bytes);
    chunk->remote_offset = request->remote_offset + request->cut_bytes;
    chunk->user = request->user + request->cut_bytes;
    chunk->request = request;
}

static void append_read(struct zc_pipeline *pipeline, struct zc_lane *lane, struct zc_chunk *chunk)
{
    struct ibv_send_wr *const wr = &pipeline->wrs[chunk->index];
    wr->wr.rdma.remote_addr = pipeline->remote.address + chunk->remote_offset;
    wr->next = NULL;
    if (lane->first)
        lane->last->next = wr;
    else
        lane->first = wr;
    lane->last = wr;
    lane->slots.used++;
    chunk->lane = (uint32_t)(lane - pipeline->lanes);
    chunk->state = ZC_CHUNK_POSTED;
    pipeline->posted++;
}

static int ring_doorbells(struct zc_pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->lane_count; i++)
        if (pipeline->lanes[i].first) {
            const int rc = ring_doorbell(pipeline, &pipeline->lanes[i]);
            if (rc < 0)
                return rc;
        }
    zc_lap(pipeline, ZC_STAGE_POST);
    return 0;
}

int zc_pipeline_fill(struct zc_pipeline *pipeline)
{
    const struct zc_memory_ops *const memory = pipeline->strategy->memory;
    bool any = false;
    while (pipeline->cutting.count > 0 && pipeline->free_count > 0) {
        struct zc_lane *const lane = free_lane(pipeline);
        if (!lane)
            break;
        struct zc_chunk *const chunk = &pipeline->chunks[pipeline->free_chunks[pipeline->free_count - 1]];
        struct zc_request *const request = &pipeline->requests[pipeline->cutting.items[pipeline->cutting.first]];
        cut_chunk(pipeline, chunk, request);
        zc_lap(pipeline, ZC_STAGE_POST);
        const int rc = memory->before(pipeline, chunk);
        zc_lap(pipeline, ZC_STAGE_BEFORE);
        if (rc == -EAGAIN)
            break;
        if (rc < 0)
            return rc;
        chunk->state = ZC_CHUNK_READY;
        pipeline->free_count--;
        request->cut_bytes += chunk->length_bytes;
        if (request->cut_bytes == pipeline->params.options->size_bytes)
            zc_ring_pop(&pipeline->cutting);
        append_read(pipeline, lane, chunk);
        any = true;
        if (memory->registers) {    /* the next before() takes long: this READ must not wait for it */
            const int posted = ring_doorbells(pipeline);
            if (posted < 0)
                return posted;
        }
    }
    return any ? ring_doorbells(pipeline) : 0;
}

static int land(struct zc_pipeline *pipeline, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS)
        return zc_pipeline_fail_completion(pipeline, wc);
    if (wc->wr_id >= pipeline->chunk_count || pipeline->chunks[wc->wr_id].state != ZC_CHUNK_POSTED)
        return zc_pipeline_fail(pipeline, ZC_ERR_INTERNAL, -EIO, "a completion of no READ in flight: wr_id %" PRIu64, wc->wr_id);
    struct zc_chunk *const chunk = &pipeline->chunks[wc->wr_id];
    chunk->state = ZC_CHUNK_LANDED;
    zc_slots_give(&pipeline->lanes[chunk->lane].slots, 1);
    pipeline->posted--;
    zc_ring_push(&pipeline->landed, chunk->index);
    if (--chunk->request->landing == 0 && !pipeline->strategy->memory->copies)
        chunk->request->available_ns = zc_now_ns();
    return 0;
}

int zc_pipeline_collect(struct zc_pipeline *pipeline)
{
    if (zc_pipeline_cancelled(pipeline))
        return zc_pipeline_fail(pipeline, ZC_ERR_CANCELLED, -ECANCELED, "cancelled");
    if (pipeline->posted == 0)
        return 0;
    const int count = zc_completion_poll(pipeline->params.completion, ZC_POLL_BATCH, pipeline->wcs);
    if (count < 0)
        return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, count, "polling the completion queue failed: %s", strerror(-count));
    for (int i = 0; i < count; i++) {
        const int rc = land(pipeline, &pipeline->wcs[i]);
        if (rc < 0)
            return rc;
    }
    return count;
}

struct zc_chunk *zc_pipeline_next_landed(struct zc_pipeline *pipeline)
{
    return pipeline->landed.count > 0 ? &pipeline->chunks[zc_ring_pop(&pipeline->landed)] : NULL;
}

int zc_pipeline_finish(struct zc_pipeline *pipeline, struct zc_chunk *chunk, struct zc_request **done)
{
    const struct zc_memory_ops *const memory = pipeline->strategy->memory;
    struct zc_request *const request = chunk->request;
    zc_lap(pipeline, ZC_STAGE_POST);
    const int rc = memory->after(pipeline, chunk);
    zc_lap(pipeline, ZC_STAGE_AFTER);
    if (rc < 0)
        return rc;
    chunk->state = ZC_CHUNK_IDLE;
    pipeline->free_chunks[pipeline->free_count++] = chunk->index;
    if (--request->finishing > 0) {
        *done = NULL;
        return 0;
    }
    /* One reading of the clock serves both, unless something was left to do after the bytes were there. */
    if (memory->copies)
        request->available_ns = zc_now_ns();
    request->reclaimed_ns = memory->registers ? zc_now_ns() : request->available_ns;
    *done = request;
    return 0;
}

/* --- waiting --------------------------------------------------------------------------------------------------- */

enum {
    SPINS_PER_LOOK = 256,           /* empty polls between two readings of the clock */
    CHECK_INTERVAL_NS = 5000000,    /* between two looks at the connection */
    SLEEP_NS = 20000000,            /* --wait event: the longest sleep between two looks */
};

/* What must happen now and then while nothing comes. */
struct watch {
    uint64_t since_ns, next_check_ns;   /* 0: the clock has not been read yet */
};

static int look_around(struct zc_pipeline *pipeline, struct watch *watch)
{
    const struct zc_pipeline_params *const params = &pipeline->params;
    if (zc_pipeline_cancelled(pipeline))
        return zc_pipeline_fail(pipeline, ZC_ERR_CANCELLED, -ECANCELED, "cancelled");
    const uint64_t now = zc_now_ns();
    if (watch->since_ns == 0)
        *watch = (struct watch){.since_ns = now, .next_check_ns = now + CHECK_INTERVAL_NS};
    if (now < watch->next_check_ns)
        return 0;
    watch->next_check_ns = now + CHECK_INTERVAL_NS;
    struct zc_error lost;
    const int rc = zc_connection_check(params->connection, &lost);
    if (rc < 0)
        return zc_pipeline_fail(pipeline, lost.kind, rc, "%s", lost.message);
    if (now - watch->since_ns >= params->stuck_ns)
        return zc_pipeline_fail(pipeline, ZC_ERR_PEER, -ETIMEDOUT, "no completion for %.3g s with %" PRIu32 " READs in flight",
                                (double)params->stuck_ns / 1e9, pipeline->posted);
    if (params->idle)
        params->idle(params->idle_arg, now);
    return 0;
}

static int wait_polling(struct zc_pipeline *pipeline)
{
    struct watch watch = {0};
    for (uint32_t spins = 1;; spins++) {
        const int landed = zc_pipeline_collect(pipeline);
        if (landed != 0)
            return landed;
        if (spins % SPINS_PER_LOOK == 0) {
            const int rc = look_around(pipeline, &watch);
            if (rc < 0)
                return rc;
        }
    }
}

/* Poll, arm, poll again - a completion before arming raises no event - and only then sleep. */
static int wait_sleeping(struct zc_pipeline *pipeline)
{
    struct watch watch = {0};
    for (;;) {
        int rc = zc_pipeline_collect(pipeline);
        if (rc != 0)
            return rc;
        rc = zc_completion_rearm(pipeline->params.completion);
        if (rc < 0)
            return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "arming the completion queue failed: %s", strerror(-rc));
        rc = zc_pipeline_collect(pipeline);
        if (rc != 0)
            return rc;
        rc = zc_completion_wait(pipeline->params.completion, pipeline->params.cancel_fd, zc_now_ns() + SLEEP_NS);
        if (rc < 0)
            return zc_pipeline_fail(pipeline, ZC_ERR_DEVICE, rc, "waiting for a completion failed: %s", strerror(-rc));
        if (rc == 0 && (rc = look_around(pipeline, &watch)) < 0)
            return rc;
    }
}

int zc_pipeline_wait(struct zc_pipeline *pipeline)
{
    zc_lap(pipeline, ZC_STAGE_POST);
    const int rc = pipeline->wait == ZC_WAIT_EVENT ? wait_sleeping(pipeline) : wait_polling(pipeline);
    zc_lap(pipeline, ZC_STAGE_WAIT);
    return rc < 0 ? rc : 0;
}
