/* The inside of the pipeline, for pipeline.c, execution/ and strategy/ only: its arrays, and the blocks from which every execution
 * is built - cut, prepare, post, collect, wait, finish. All of them are for the pipeline's one owner, the thread that submits and
 * reaps; what other threads may call says so. */
#ifndef ZC_PIPELINE_PRIVATE_H
#define ZC_PIPELINE_PRIVATE_H

#include <pthread.h>

#include "clock.h"
#include "completion.h"
#include "execution/alarm.h"
#include "pipeline.h"
#include "trace.h"

enum {
    ZC_POLL_BATCH = 32,
    ZC_SLEEP_MS = 20,           /* the longest sleep between two looks around */
};

/* The wr_id of a READ: whose it is, and the how-manieth of that chunk. Never ZC_CONTROL_WR_ID, whose chunk there is none of. */
static inline uint64_t zc_wr_id(uint32_t chunk, uint32_t number) { return (uint64_t)number << 32 | chunk; }
static inline uint32_t zc_wr_chunk(uint64_t wr_id) { return (uint32_t)wr_id; }
static inline uint32_t zc_wr_number(uint64_t wr_id) { return (uint32_t)(wr_id >> 32); }

/* Indices in arrival order; never holds more than it has room for, mask + 1, a power of two: a push cannot fail. */
struct zc_ring {
    uint32_t *items;
    uint32_t mask, first, end;      /* first and end count on for ever */
};
static inline uint32_t zc_ring_count(const struct zc_ring *ring) { return ring->end - ring->first; }
static inline bool zc_ring_empty(const struct zc_ring *ring) { return ring->first == ring->end; }
static inline uint32_t zc_ring_first(const struct zc_ring *ring) { return ring->items[ring->first & ring->mask]; }
static inline void zc_ring_push(struct zc_ring *ring, uint32_t item) { ring->items[ring->end++ & ring->mask] = item; }
static inline uint32_t zc_ring_pop(struct zc_ring *ring) { return ring->items[ring->first++ & ring->mask]; }

static inline uint32_t zc_hands_count(const struct zc_hands *hands) { return hands->before + hands->after; }

/* A QP, the rkey that it reads with, the slots of it that are taken, and the list that will go out with its next doorbell. */
struct zc_lane {
    struct zc_sender sender;
    uint32_t rkey;
    struct zc_slots slots;
    struct ibv_send_wr *first, **tail;  /* where the next entry is to be linked: first itself, while there is none */
    struct zc_lane *next;       /* in turn; the last one's is the first */
};

/* A READ, prebuilt: what changes is filled in when it is posted. */
struct zc_read {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct zc_lane *lane;       /* the QP that it went to */
};

/* Consecutive clock readings of the owner, each charged to one stage: together they are its whole time. `on` changes between
 * requests only, so other threads may read it while they hold a chunk. */
struct zc_laps {
    bool on;
    uint64_t last_ns, stage_ns[ZC_STAGE_COUNT];
};

/* Since when no READ has completed although one is in flight, and when the connection is to be looked at again. 0: the clock has not
 * been read since something completed. */
struct zc_watch {
    uint64_t since_ns, next_check_ns;
};

struct zc_pipeline {
    const struct zc_strategy *strategy;
    const struct zc_memory_ops *ops;    /* the strategy's memory */
    struct zc_pipeline_params params;
    struct zc_remote remote;
    enum zc_wait wait;                  /* in force */
    bool always_sleeps;                 /* whatever --wait says: an event loop, or fewer cores than busy threads */
    uint64_t copy_below_bytes;          /* requests of fewer bytes are copied */
    bool copies, registers, deregisters;    /* what requests of the full size do */
    bool whole;                         /* a request, or each piece of it, is one chunk */
    uint64_t copy_chunk_bytes, direct_chunk_bytes;  /* of a chunk at most, in requests that are copied and in others */
    uint64_t max_read_bytes;            /* of one READ */
    uint32_t chunks_per_request;        /* of the full size */
    uint32_t reads_per_chunk;           /* at most; more than one for whole requests only */
    struct zc_hands hands;

    struct zc_request *requests;        /* depth */
    struct zc_ring cutting;             /* requests that have bytes not yet handed out to chunks */
    struct zc_ring done;                /* requests that are reclaimed and not reaped */

    uint32_t chunk_count;               /* records */
    struct zc_chunk *chunks;
    struct zc_read *reads;              /* reads_per_chunk a record */
    uint32_t *free_chunks, free_count;  /* last in, first out: the memory used last is the one still in the cache */
    struct zc_ring ready;               /* chunks that wait for a slot, the first one perhaps with READs in flight already */
    struct zc_ring landed;              /* chunks that wait for after() */
    uint32_t posted;                    /* READs in flight */
    uint64_t staging_huge_bytes;        /* of the staging memory's pages; set by its setup() */

    struct zc_lane *lanes;              /* one a QP */
    uint32_t lane_count;
    struct zc_lane *next_lane;          /* whose turn it is */
    uint32_t slot_count;                /* of all lanes */
    struct ibv_wc wcs[ZC_POLL_BATCH];

    struct zc_watch watch;
    struct zc_laps laps;
    atomic_bool tracing;                /* on only with params.trace; the execution's threads look at it, too */
    uint64_t submitted;                 /* requests so far */
    struct zc_alarm *alarm;             /* of the execution's threads; NULL: it has none */
    atomic_bool spin;                   /* may its threads poll for a moment before they sleep? */
    atomic_uint_least64_t registrations, registered, registering_allocations;   /* any thread; registered: held now */
    pthread_mutex_t error_lock;         /* taken when something fails, and by zc_pipeline_error() */
    struct zc_error error;
    void *memory, *execution;           /* their own state */
};

/* What the provider allocates within its verbs is counted apart: the promise to allocate nothing is ours, not its. Any thread. */
static inline uint64_t zc_pipeline_allocations(const struct zc_pipeline *pipeline)
{
    return pipeline->params.thread_allocations ? pipeline->params.thread_allocations() : 0;
}
static inline void zc_pipeline_count_registering(struct zc_pipeline *pipeline, uint64_t before)
{
    if (!pipeline->params.thread_allocations)
        return;
    const uint64_t made = zc_pipeline_allocations(pipeline) - before;
    if (made)
        atomic_fetch_add_explicit(&pipeline->registering_allocations, made, memory_order_relaxed);
}

void zc_lap_ends(struct zc_laps *laps, enum zc_stage stage);    /* slow path of the next (tracing.c) */
static inline void zc_lap(struct zc_pipeline *pipeline, enum zc_stage stage)
{
    struct zc_laps *const laps = &pipeline->laps;
    if (!laps->on)
        return;
    zc_lap_ends(laps, stage);
}

/* After waiting. Without a READ in flight the time belongs to the threads that were waited for, who measure it themselves. */
static inline void zc_lap_wait(struct zc_pipeline *pipeline, bool flying)
{
    if (flying)
        zc_lap(pipeline, ZC_STAGE_WAIT);
    else if (pipeline->laps.on)
        pipeline->laps.last_ns = zc_now_ns();
}

static inline bool zc_pipeline_tracing(const struct zc_pipeline *pipeline)
{
    return atomic_load_explicit(&pipeline->tracing, memory_order_relaxed);
}

/* Slow paths of the functions below (tracing.c). */
int zc_timed_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk);      /* the owner's: laps around zc_pipeline_before() */
int zc_timed_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
int zc_traced_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
int zc_traced_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
void zc_trace_request(struct zc_pipeline *pipeline, enum zc_trace_stage stage, const struct zc_request *request);
void zc_trace_chunk(struct zc_pipeline *pipeline, enum zc_trace_stage stage, const struct zc_chunk *chunk, uint64_t begin_ns,
                    uint64_t end_ns);
/* zc_sender_post(), and POSTED for each chunk whose first READ is in the list. */
int zc_traced_post(struct zc_pipeline *pipeline, const struct zc_sender *sender, struct ibv_send_wr *list);

/* The memory's before() and after(), by whoever has the chunk. */
static inline int zc_pipeline_before(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    return zc_pipeline_tracing(pipeline) ? zc_traced_before(pipeline, chunk) : pipeline->ops->before(pipeline, chunk);
}

static inline int zc_pipeline_after(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    return zc_pipeline_tracing(pipeline) ? zc_traced_after(pipeline, chunk) : pipeline->ops->after(pipeline, chunk);
}

static inline int zc_pipeline_mr_access(const struct zc_pipeline *pipeline)
{
    return IBV_ACCESS_LOCAL_WRITE | pipeline->params.mr_access;
}

static inline bool zc_pipeline_cancelled(const struct zc_pipeline *pipeline)
{
    return pipeline->params.cancel && atomic_load_explicit(pipeline->params.cancel, memory_order_relaxed);
}

/* Queue a request for cutting. 0, or -EINVAL for one that is longer than the pipeline was made for. */
int zc_pipeline_cut(struct zc_pipeline *pipeline, struct zc_request *request);
/* The next chunk of the oldest request, PREPARING: whoever gets it carries out before(). NULL: no bytes or no record left. */
struct zc_chunk *zc_pipeline_next_cut(struct zc_pipeline *pipeline);
/* before() without anything that takes time: true, and the chunk is READY. */
bool zc_pipeline_ask_ready(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
static inline bool zc_pipeline_prepare_ready(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    return pipeline->ops->ready && zc_pipeline_ask_ready(pipeline, chunk);
}
/* before() has been carried out; the chunk is READY and waits for a slot. */
static inline void zc_pipeline_prepared(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    chunk->state = ZC_CHUNK_READY;
    zc_ring_push(&pipeline->ready, chunk->index);
}
/* before() by the owner itself; the chunk is READY. */
static inline int zc_pipeline_prepare(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const int rc = pipeline->laps.on ? zc_timed_before(pipeline, chunk) : zc_pipeline_before(pipeline, chunk);
    if (rc == 0)
        zc_pipeline_prepared(pipeline, chunk);
    return rc;
}
/* Post the READs of READY chunks, in their order, as long as there are slots: one linked list and one doorbell a QP. */
int zc_pipeline_post(struct zc_pipeline *pipeline);
/* Is there a slot for one chunk more, or is none waiting for one? */
static inline bool zc_pipeline_wants_chunks(const struct zc_pipeline *pipeline)
{
    return zc_ring_count(&pipeline->ready) <= pipeline->slot_count - pipeline->posted;
}
int zc_pipeline_fail_cancelled(struct zc_pipeline *pipeline);
int zc_pipeline_poll(struct zc_pipeline *pipeline);     /* with READs in flight */
/* Poll once: how many READs completed. Never blocks; -ECANCELED if the run was cancelled. */
static inline int zc_pipeline_collect(struct zc_pipeline *pipeline)
{
    if (zc_pipeline_cancelled(pipeline))
        return zc_pipeline_fail_cancelled(pipeline);
    return pipeline->posted > 0 ? zc_pipeline_poll(pipeline) : 0;
}
/* Poll or sleep, as the run's wait says, until a READ has completed or a thread has handed something back: 0. */
int zc_pipeline_wait(struct zc_pipeline *pipeline);
/* The oldest landed chunk, or NULL. Whoever gets it carries out after(). */
static inline struct zc_chunk *zc_pipeline_next_landed(struct zc_pipeline *pipeline)
{
    return zc_ring_empty(&pipeline->landed) ? NULL : &pipeline->chunks[zc_ring_pop(&pipeline->landed)];
}
void zc_pipeline_done(struct zc_pipeline *pipeline, struct zc_request *request);    /* its last chunk has been retired */
/* after() has been carried out, at chunk->finished_ns: the record is free, and with its last chunk the request is done. */
static inline void zc_pipeline_retire(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    struct zc_request *const request = chunk->request;
    chunk->state = ZC_CHUNK_IDLE;
    pipeline->free_chunks[pipeline->free_count++] = chunk->index;
    if (chunk->finished_ns > request->finished_ns)
        request->finished_ns = chunk->finished_ns;
    if (--request->finishing == 0)
        zc_pipeline_done(pipeline, request);
}
/* after() by the owner itself, and retire. The clock is read once a request: its other chunks were finished before, by this thread. */
static inline int zc_pipeline_finish(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    const int rc = pipeline->laps.on ? zc_timed_after(pipeline, chunk) : zc_pipeline_after(pipeline, chunk);
    if (rc < 0)
        return rc;
    const bool timed = chunk->request->finishing == 1 && (chunk->request->copies || pipeline->ops->deregisters);
    chunk->finished_ns = timed ? zc_now_ns() : 0;
    zc_pipeline_retire(pipeline, chunk);
    return 0;
}
/* Reap what is done: how many. */
int zc_pipeline_take_done(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max);

/* For executions that sleep in a way of their own. Make sure that whatever comes from now on wakes the sleeper. Not 0: it has come
 * already, or a negative errno. */
int zc_pipeline_arm(struct zc_pipeline *pipeline);
/* What must happen now and then while nothing comes: cancelled? peer lost? stuck? Call it after each sleep. */
int zc_pipeline_look_around(struct zc_pipeline *pipeline);

/* Record why the run ends and return the errno: `return zc_pipeline_fail(...)`. The first reason stays. Any thread. */
int zc_pipeline_fail(struct zc_pipeline *pipeline, enum zc_error_kind kind, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a work completion with an error: the peer's disappearance if the connection knows of one, else the READ and its
 * status (failure.c). */
int zc_pipeline_fail_completion(struct zc_pipeline *pipeline, const struct ibv_wc *wc);

/* The rows' parts. */
extern const struct zc_memory_ops zc_memory_staging, zc_memory_register, zc_memory_preregistered, zc_memory_odp, zc_memory_hybrid,
    zc_memory_cached;
extern const struct zc_execution_ops zc_execution_blocking, zc_execution_non_blocking, zc_execution_async;

#endif
