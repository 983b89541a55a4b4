/* The inside of the pipeline, for pipeline.c, execution/ and strategy/ only: its arrays, and the blocks from which every execution
 * is built - cut, fill, collect, wait, finish. One owner thread, except where an execution says otherwise. */
#ifndef ZC_PIPELINE_PRIVATE_H
#define ZC_PIPELINE_PRIVATE_H

#include "clock.h"
#include "completion.h"
#include "pipeline.h"

enum { ZC_POLL_BATCH = 32 };

/* Indices in arrival order; never holds more than `capacity`, so a push cannot fail. */
struct zc_ring {
    uint32_t *items;
    uint32_t capacity, first, count;
};
static inline void zc_ring_push(struct zc_ring *ring, uint32_t item)
{
    uint32_t at = ring->first + ring->count++;
    ring->items[at < ring->capacity ? at : at - ring->capacity] = item;
}
static inline uint32_t zc_ring_pop(struct zc_ring *ring)
{
    const uint32_t item = ring->items[ring->first];
    ring->first = ring->first + 1 < ring->capacity ? ring->first + 1 : 0;
    ring->count--;
    return item;
}

/* A QP, the slots of it that are taken, and what will go out with its next doorbell. */
struct zc_lane {
    struct ibv_qp *qp;
    struct zc_slots slots;
    struct ibv_send_wr *first, *last;
};

/* Consecutive clock readings, each charged to one stage: together they are the whole time. */
struct zc_laps {
    bool on;
    uint64_t last_ns, stage_ns[ZC_STAGE_COUNT];
};

struct zc_pipeline {
    const struct zc_strategy *strategy;
    struct zc_pipeline_params params;
    struct zc_remote remote;
    enum zc_wait wait;
    uint64_t chunk_bytes;               /* of all but the last chunk of a request */
    uint32_t chunks_per_request;

    struct zc_request *requests;        /* depth */
    struct zc_ring cutting;             /* requests that have bytes not yet handed out to chunks */

    uint32_t chunk_count;               /* records */
    struct zc_chunk *chunks;
    struct ibv_send_wr *wrs;            /* one a chunk record, prebuilt */
    uint32_t *free_chunks, free_count;  /* last in, first out: the memory used last is the one still in the cache */
    struct zc_ring landed;              /* chunks that wait for after() */
    uint32_t posted;                    /* READs in flight */

    struct zc_lane *lanes;              /* one a QP */
    uint32_t lane_count, next_lane;
    struct ibv_wc wcs[ZC_POLL_BATCH];

    struct zc_laps laps;
    struct zc_error error;
    void *memory, *execution;           /* their own state */
};

static inline void zc_lap(struct zc_pipeline *pipeline, enum zc_stage stage)
{
    struct zc_laps *const laps = &pipeline->laps;
    if (!laps->on)
        return;
    const uint64_t now = zc_now_ns();
    laps->stage_ns[stage] += now - laps->last_ns;
    laps->last_ns = now;
}

static inline bool zc_pipeline_cancelled(const struct zc_pipeline *pipeline)
{
    return pipeline->params.cancel && atomic_load_explicit(pipeline->params.cancel, memory_order_relaxed);
}

/* Queue a request for cutting. */
void zc_pipeline_cut(struct zc_pipeline *pipeline, struct zc_request *request);
/* Cut, before() and post as many chunks as records, slots and the negotiated depth allow: one linked list and one doorbell a QP. */
int zc_pipeline_fill(struct zc_pipeline *pipeline);
/* Poll once: how many chunks landed. Never blocks; -ECANCELED if the run was cancelled. */
int zc_pipeline_collect(struct zc_pipeline *pipeline);
/* Poll or sleep, as the run's wait says, until at least one chunk has landed: 0. */
int zc_pipeline_wait(struct zc_pipeline *pipeline);
/* The oldest landed chunk, or NULL. */
struct zc_chunk *zc_pipeline_next_landed(struct zc_pipeline *pipeline);
/* after() and give the record back. *done is the request if this was its last chunk, else NULL. */
int zc_pipeline_finish(struct zc_pipeline *pipeline, struct zc_chunk *chunk, struct zc_request **done);

/* Record why the run ends and return the errno: `return zc_pipeline_fail(...)`. The first reason stays. */
int zc_pipeline_fail(struct zc_pipeline *pipeline, enum zc_error_kind kind, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a work completion with an error: the peer's disappearance if the connection knows of one, else the READ and its
 * status (failure.c). */
int zc_pipeline_fail_completion(struct zc_pipeline *pipeline, const struct ibv_wc *wc);

/* The rows' parts. */
extern const struct zc_memory_ops zc_memory_staging;
extern const struct zc_execution_ops zc_execution_blocking;

#endif
