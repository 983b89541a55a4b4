/* Set-up of the pipeline, and its face to the caller. The data path is in blocks.c, waiting in wait.c. */
#include "pipeline_private.h"
#include "result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- set-up ---------------------------------------------------------------------------------------------------- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t round_up_division(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Which requests are copied, and what those of the full size go through. */
static void plan_stages(struct zc_pipeline *pipeline)
{
    const struct zc_memory_ops *const memory = pipeline->ops;
    if (memory->copies_below)
        pipeline->copy_below_bytes = memory->copies_below(pipeline);
    else
        pipeline->copy_below_bytes = memory->copies ? UINT64_MAX : 0;
    pipeline->copies = pipeline->params.options->size_bytes < pipeline->copy_below_bytes;
    pipeline->registers = memory->registers && !pipeline->copies;
    pipeline->deregisters = memory->deregisters && !pipeline->copies;
}

/* A chunk is what one READ carries, except that a whole request is one however many READs it takes. */
static void plan_chunks(struct zc_pipeline *pipeline)
{
    const struct zc_run_options *const options = pipeline->params.options;
    pipeline->whole = pipeline->strategy->info->chunking == ZC_CHUNK_WHOLE;
    pipeline->max_read_bytes = min_u64(zc_connection_max_read_bytes(pipeline->params.connection), INT32_MAX);
    const uint64_t most = min_u64(pipeline->max_read_bytes, options->size_bytes);
    pipeline->copy_chunk_bytes = min_u64(options->mr_size_bytes, most);
    pipeline->direct_chunk_bytes = pipeline->whole ? options->size_bytes : min_u64(options->chunk_size_bytes, most);
}

static uint64_t chunk_bytes(const struct zc_pipeline *pipeline)
{
    return pipeline->copies ? pipeline->copy_chunk_bytes : pipeline->direct_chunk_bytes;
}

/* Of a request of the full size, whose pieces are alike but for the last, which has the rest. */
static uint64_t count_chunks(const struct zc_pipeline *pipeline)
{
    const struct zc_run_options *const options = pipeline->params.options;
    const uint64_t size = options->size_bytes, pieces = options->pieces, chunk = chunk_bytes(pipeline);
    if (pipeline->copies || pieces <= 1)
        return round_up_division(size, chunk);
    return (pieces - 1) * round_up_division(size / pieces, chunk) + round_up_division(size / pieces + size % pieces, chunk);
}

/* How a request is cut, and how many chunks may be alive at once. */
static int plan(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const struct zc_pipeline_params *const params = &pipeline->params;
    const struct zc_memory_ops *const memory = pipeline->ops;
    plan_stages(pipeline);
    plan_chunks(pipeline);
    const uint64_t chunks = count_chunks(pipeline);
    const uint64_t reads = pipeline->copies ? 1 : round_up_division(pipeline->direct_chunk_bytes, pipeline->max_read_bytes);
    if (chunks > UINT32_MAX || reads > UINT32_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "size", "%" PRIu64 " bytes cut into chunks of %" PRIu64
                            " are more than %u chunks", params->options->size_bytes, chunk_bytes(pipeline), UINT32_MAX);
    pipeline->chunks_per_request = (uint32_t)chunks;
    pipeline->reads_per_chunk = (uint32_t)reads;
    if (pipeline->strategy->execution->hands)
        pipeline->hands = pipeline->strategy->execution->hands(pipeline);

    for (uint32_t i = 0; i < pipeline->lane_count; i++)
        pipeline->slot_count += pipeline->lanes[i].slots.capacity;
    const uint64_t wanted = memory->slots ? memory->slots(pipeline) : pipeline->slot_count;
    pipeline->chunk_count = (uint32_t)min_u64(wanted ? wanted : 1, min_u64(chunks * params->depth, UINT32_MAX / 2));
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
    pipeline->next_lane = pipeline->lanes;
    const uint32_t outstanding = zc_connection_outstanding_reads(connection);
    const uint32_t slots = pipeline->params.send_slots;
    for (uint32_t i = 0; i < pipeline->lane_count; i++) {
        pipeline->lanes[i].sender = *zc_connection_sender(connection, i);
        pipeline->lanes[i].rkey = zc_connection_rkey(connection, i);
        pipeline->lanes[i].slots.capacity = outstanding < slots ? outstanding : slots;
        pipeline->lanes[i].tail = &pipeline->lanes[i].first;
        pipeline->lanes[i].next = &pipeline->lanes[(i + 1) % pipeline->lane_count];
    }
    return 0;
}

static int create_ring(struct zc_ring *ring, uint32_t capacity)
{
    uint32_t room = 1;
    while (room < capacity)
        room *= 2;
    ring->items = calloc(room, sizeof *ring->items);
    ring->mask = room - 1;
    return ring->items ? 0 : -ENOMEM;
}

static void build_chunk(struct zc_pipeline *pipeline, uint32_t index)
{
    struct zc_chunk *const chunk = &pipeline->chunks[index];
    chunk->index = index;
    chunk->wrs = &pipeline->reads[(size_t)index * pipeline->reads_per_chunk];
    pipeline->free_chunks[index] = pipeline->chunk_count - 1 - index;   /* record 0 on top */
    for (uint32_t i = 0; i < pipeline->reads_per_chunk; i++) {
        struct zc_read *const read = &chunk->wrs[i];
        zc_wr_read(&read->wr, zc_wr_id(index, i), &read->sge, 1, 0, 0, IBV_SEND_SIGNALED);
    }
}

static int create_arrays(struct zc_pipeline *pipeline, struct zc_error *err)
{
    const uint32_t count = pipeline->chunk_count, depth = pipeline->params.depth;
    pipeline->requests = calloc(depth, sizeof *pipeline->requests);
    pipeline->chunks = calloc(count, sizeof *pipeline->chunks);
    pipeline->reads = calloc((size_t)count * pipeline->reads_per_chunk, sizeof *pipeline->reads);
    pipeline->free_chunks = calloc(count, sizeof *pipeline->free_chunks);
    if (!pipeline->requests || !pipeline->chunks || !pipeline->reads || !pipeline->free_chunks ||
        create_ring(&pipeline->cutting, depth) < 0 || create_ring(&pipeline->ready, count) < 0 ||
        create_ring(&pipeline->landed, count) < 0 || create_ring(&pipeline->done, depth) < 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %" PRIu32 " requests and %" PRIu32 " chunks",
                            depth, count);
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
        rc = pipeline->ops->setup(pipeline, err);
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
    made->ops = params->strategy->memory;
    made->params = *params;
    if (made->params.stuck_ns == 0)
        made->params.stuck_ns = UINT64_C(10000000000);
    made->remote = *zc_connection_remote(params->connection);
    pthread_mutex_init(&made->error_lock, NULL);

    const int rc = create_parts(made, err);
    if (rc < 0) {
        zc_pipeline_destroy(made);
        return rc;
    }
    zc_pipeline_set_wait(made, (enum zc_wait)params->options->wait);
    *pipeline = made;
    return 0;
}

void zc_pipeline_destroy(struct zc_pipeline *pipeline)
{
    if (!pipeline)
        return;
    if (pipeline->strategy->execution->teardown)
        pipeline->strategy->execution->teardown(pipeline);
    pipeline->ops->teardown(pipeline);
    pthread_mutex_destroy(&pipeline->error_lock);
    free(pipeline->done.items);
    free(pipeline->landed.items);
    free(pipeline->ready.items);
    free(pipeline->cutting.items);
    free(pipeline->free_chunks);
    free(pipeline->reads);
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

/* The lock only orders this reading after the writing in another thread; what is written stays. */
const struct zc_error *zc_pipeline_error(struct zc_pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->error_lock);
    pthread_mutex_unlock(&pipeline->error_lock);
    return &pipeline->error;
}

void zc_pipeline_set_wait(struct zc_pipeline *pipeline, enum zc_wait wait)
{
    pipeline->wait = pipeline->always_sleeps ? ZC_WAIT_EVENT : wait;
    atomic_store_explicit(&pipeline->spin, pipeline->wait == ZC_WAIT_POLL, memory_order_relaxed);
}

void zc_pipeline_time_stages(struct zc_pipeline *pipeline, bool on)
{
    pipeline->laps = (struct zc_laps){.on = on, .last_ns = on ? zc_now_ns() : 0};
}

void zc_pipeline_set_tracing(struct zc_pipeline *pipeline, bool on)
{
    atomic_store_explicit(&pipeline->tracing, on && pipeline->params.trace, memory_order_relaxed);
}

void zc_pipeline_skip_ns(struct zc_pipeline *pipeline, uint64_t duration_ns)
{
    pipeline->laps.last_ns += duration_ns;
}

uint64_t zc_pipeline_stage_ns(const struct zc_pipeline *pipeline, enum zc_stage stage)
{
    return pipeline->laps.stage_ns[stage];
}

struct zc_stages zc_pipeline_stages(const struct zc_pipeline *pipeline)
{
    return (struct zc_stages){.copies = pipeline->copies, .registers = pipeline->registers};
}

int zc_pipeline_forget(struct zc_pipeline *pipeline, void *address, uint64_t length_bytes)
{
    const struct zc_memory_ops *const memory = pipeline->ops;
    return memory->forget ? memory->forget(pipeline, address, length_bytes) : 0;
}

void zc_pipeline_terms(const struct zc_pipeline *pipeline, struct zc_terms *terms)
{
    const bool staging = pipeline->copies;
    terms->chunk_bytes = chunk_bytes(pipeline);
    terms->chunks = pipeline->chunks_per_request;
    terms->staging_slots = staging ? pipeline->chunk_count : 0;
    terms->staging_huge_page_bytes = staging ? pipeline->staging_huge_bytes : 0;
    terms->staging_bytes = staging ? pipeline->chunk_count * pipeline->copy_chunk_bytes : 0;
    terms->threads = zc_hands_count(&pipeline->hands);
    terms->wait = pipeline->wait;
    terms->post = zc_sender_family(&pipeline->lanes[0].sender);
    terms->poll = zc_completion_family(pipeline->params.completion);
    terms->qps = pipeline->lane_count;
    terms->outstanding_reads = zc_connection_outstanding_reads(pipeline->params.connection);
    terms->max_read_bytes = zc_connection_max_read_bytes(pipeline->params.connection);
}

int zc_pipeline_fail(struct zc_pipeline *pipeline, enum zc_error_kind kind, int errnum, const char *format, ...)
{
    char text[ZC_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&pipeline->error_lock);
    if (pipeline->error.kind == ZC_ERR_NONE)
        zc_error_set(&pipeline->error, kind, errnum, NULL, "%s", text);
    const int rc = pipeline->error.errnum;
    pthread_mutex_unlock(&pipeline->error_lock);
    return rc;
}

void zc_pipeline_use(struct zc_pipeline *pipeline, bool cpu, struct zc_pipeline_use *use)
{
    *use = (struct zc_pipeline_use){
        .registrations = atomic_load_explicit(&pipeline->registrations, memory_order_relaxed),
        .registering_allocations = atomic_load_explicit(&pipeline->registering_allocations, memory_order_relaxed),
    };
    if (pipeline->strategy->execution->use)
        pipeline->strategy->execution->use(pipeline, cpu, use);
    if (pipeline->ops->use)
        pipeline->ops->use(pipeline, use);
}
