/* What all strategies share: a request is cut into chunks, and each chunk goes [before] -> post READ -> completion -> [after].
 * A strategy is a row: which memory (what before and after do), which execution (who drives it), which chunking. All arrays are
 * sized at set-up; nothing here allocates afterwards. measure.c and load.c use this file; the strategies' own files also
 * pipeline_private.h. */
#ifndef ZC_PIPELINE_H
#define ZC_PIPELINE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "connection.h"
#include "memory.h"
#include "options.h"
#include "post.h"

struct zc_pipeline;
struct zc_pipeline_use;
struct zc_read;         /* the pipeline's own */
struct zc_terms;        /* result.h */
struct zc_trace;

/* A piece of user memory. */
struct zc_piece {
    uint8_t *address;
    uint64_t length_bytes;
};

/* One read into one user buffer, or into several pieces of user memory. */
struct zc_request {
    /* The caller's, set before zc_pipeline_submit(). */
    uint8_t *user;              /* where the bytes are wanted */
    uint64_t length_bytes;      /* 1 .. options.size_bytes; 0: options.size_bytes */
    const struct zc_piece *pieces;  /* or here, in this order: together length_bytes, unchanged until reaped; `user` is not used then */
    uint32_t piece_count;       /* 0: none, `user` is */
    uint64_t remote_offset;     /* in the peer's region */
    uint64_t submit_ns, buffer; /* for the caller's own use */
    /* Written when it is reaped (CLOCK_MONOTONIC). */
    uint64_t available_ns;      /* its bytes were in the user's buffer */
    uint64_t reclaimed_ns;      /* and the buffer free of RDMA state */
    /* The pipeline's own. */
    uint64_t number;            /* counted from 0 in the order of submission */
    bool copies;                /* it goes through staging memory */
    struct zc_piece whole;      /* the one piece of a request that came without any */
    const struct zc_piece *cut_piece;   /* the first of its pieces that is not handed out to the end, */
    uint64_t cut_piece_bytes;   /* and how far it is */
    uint64_t cut_bytes;         /* handed out to chunks so far, of */
    uint64_t all_bytes;
    uint32_t cut_chunks;
    uint64_t finished_ns;       /* when the last after() of its chunks had returned */
    uint32_t landing;           /* chunks that have not landed */
    uint32_t finishing;         /* chunks that have not gone through after() */
};

/* A chunk record lives from before() to after(); there are as many as may be alive at once. */
enum zc_chunk_state {
    ZC_CHUNK_IDLE,              /* free */
    ZC_CHUNK_PREPARING,         /* before() is giving it local memory */
    ZC_CHUNK_READY,             /* before() has; none of its READs is posted */
    ZC_CHUNK_POSTED,            /* READs of it are in flight, or some of them still wait for a slot */
    ZC_CHUNK_LANDED,            /* all completed */
    ZC_CHUNK_FINISHING,         /* after() is at work */
};

struct zc_chunk {
    enum zc_chunk_state state;  /* written by the pipeline's owner only */
    uint32_t index;             /* of this record: also the staging slot that goes with it */
    uint32_t reads, reads_posted, reads_landed; /* one READ, more where one cannot carry it */
    uint32_t number;            /* in its request */
    uint64_t length_bytes;
    uint64_t remote_offset;     /* in the peer's region */
    const struct zc_piece *piece;   /* its place in the user's memory: it may span several pieces if it is copied, */
    uint64_t piece_bytes;       /* and begins so far into the first */
    uint8_t *user;              /* the address of that place */
    struct zc_request *request;
    struct zc_read *wrs;        /* of this record, one a READ */
    /* Set by before(). */
    uint8_t *local;             /* where its bytes land */
    uint32_t lkey;
    void *memory;               /* before()'s own: an MR, for instance */
    /* Set by whoever carried out before() or after(). */
    int status;                 /* what it returned */
    uint64_t finished_ns;       /* when it had returned (CLOCK_MONOTONIC); read only where the pipeline needs it */
    uint64_t took_ns;           /* while stages are timed */
};

/* Axis 1: local memory. before() and after() may be called from any thread, for different chunks at the same time. A negative errno
 * ends the run; the function has said why with zc_pipeline_fail(). */
struct zc_memory_ops {
    enum zc_memory_kind kind;
    /* What before() and after() spend their time on: after() copies, before() registers, after() deregisters. */
    bool copies, registers, deregisters;
    /* Requests of fewer bytes are copied, all others not; NULL: all are copied, or none. */
    uint64_t (*copies_below)(const struct zc_pipeline *pipeline);
    uint64_t (*slots)(const struct zc_pipeline *pipeline);  /* chunks wanted alive at once; NULL: as many as may be in flight */
    int (*setup)(struct zc_pipeline *pipeline, struct zc_error *err);
    void (*teardown)(struct zc_pipeline *pipeline);     /* after a failed setup too; releases what chunks still hold */
    int (*before)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
    int (*after)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
    /* before(), if that is a matter of nanoseconds this time; false: it is not. The owner's. NULL: it never is. */
    bool (*ready)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
    /* See zc_pipeline_forget(). NULL: nothing is remembered. */
    int (*forget)(struct zc_pipeline *pipeline, void *address, uint64_t length_bytes);
    /* Adds what it has counted. NULL: nothing. */
    void (*use)(const struct zc_pipeline *pipeline, struct zc_pipeline_use *use);
};

/* Threads that an execution starts: for before(), for after(), or those of the first for both. 0: the owner does it. */
struct zc_hands {
    uint32_t before, after;
    bool shared;
};

/* Axis 2: who drives the stages. Each is written once, from the blocks in pipeline_private.h. */
struct zc_execution_ops {
    enum zc_execution_kind kind;
    bool one_request;                   /* takes one request at a time, whatever operations_max says */
    struct zc_hands (*hands)(const struct zc_pipeline *pipeline);       /* NULL: none */
    int (*setup)(struct zc_pipeline *pipeline, struct zc_error *err);   /* NULL: nothing to do */
    void (*teardown)(struct zc_pipeline *pipeline);     /* joins its threads; NULL: nothing to do; after a failed setup too */
    int (*submit)(struct zc_pipeline *pipeline, struct zc_request *request);
    /* Work or wait until at least one request is reclaimed. How many were written to `done`, or a negative errno. */
    int (*reap)(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max);
    /* Executions with threads of their own; else NULL. */
    bool (*news)(const struct zc_pipeline *pipeline);   /* has one of them handed something back? */
    void (*use)(struct zc_pipeline *pipeline, bool cpu, struct zc_pipeline_use *use);   /* add their part */
};

/* Axis 3, which option is the chunk or the whole request, is in the row of proto/strategies.c. */
struct zc_strategy {
    enum zc_strategy_id id;
    const struct zc_strategy_info *info;
    const struct zc_memory_ops *memory;
    const struct zc_execution_ops *execution;
};
extern const struct zc_strategy zc_strategies[ZC_STRATEGY_COUNT];

/* Where the time of a request goes. What is left over (cutting, bookkeeping) is in POST. */
enum zc_stage { ZC_STAGE_BEFORE, ZC_STAGE_POST, ZC_STAGE_WAIT, ZC_STAGE_AFTER, ZC_STAGE_COUNT };

struct zc_pipeline_params {
    const struct zc_strategy *strategy;
    const struct zc_run_options *options;   /* borrowed for the pipeline's life */
    uint32_t depth;                         /* requests in flight at most, 1.. */
    const struct zc_device *device;
    struct zc_completion *completion;       /* borrowed; has room for send_slots of every QP */
    struct zc_connection *connection;       /* borrowed; see zc_pipeline_destroy() */
    uint32_t send_slots;                    /* what the connection was opened with */
    const struct zc_buffer *user;           /* all user buffers, for memory that is registered at set-up; others do without */
    uint64_t least_bytes;                   /* no request will be shorter; 0: one may have any length */
    uint64_t cache_bytes;                   /* the limit of a registration cache; 0: options.cache_max_bytes */
    int mr_access;                          /* of MRs for data, besides IBV_ACCESS_LOCAL_WRITE */
    int numa_node;                          /* for the pipeline's own memory; -1: anywhere */
    int cancel_fd;                          /* readable when *cancel is set; -1: none */
    const atomic_bool *cancel;              /* NULL: cannot be cancelled */
    uint64_t (*thread_allocations)(void);   /* allocator calls of the calling thread so far; NULL: not counted */
    uint64_t stuck_ns;                      /* no completion for so long is an error; 0: 10 s */
    struct zc_trace *trace;                 /* where zc_pipeline_set_tracing() makes it record; NULL: nowhere */
    uint32_t caller;                        /* as whose its records are marked there */
    void (*idle)(void *arg, uint64_t now_ns);   /* called every few milliseconds while waiting; NULL: not */
    void *idle_arg;
};

/* The connection stands already: its limits size the arrays. */
int zc_pipeline_create(const struct zc_pipeline_params *params, struct zc_pipeline **pipeline, struct zc_error *err);
/* Close the connection first: with READs in flight the memory must outlive the QPs. NULL is allowed. */
void zc_pipeline_destroy(struct zc_pipeline *pipeline);

/* Request `index` of 0..depth-1: the caller's from creation or reaping until it is submitted. */
struct zc_request *zc_pipeline_request(struct zc_pipeline *pipeline, uint32_t index);
/* Start it. 0 or a negative errno; after that only zc_pipeline_error() and destruction make sense (here and for reap). */
int zc_pipeline_submit(struct zc_pipeline *pipeline, struct zc_request *request);
/* At least one and at most `max` finished requests, waiting if none is; at least one must have been submitted. Their number, or a
 * negative errno: -ECANCELED, -ETIMEDOUT, -ENOTCONN, -EIO, ... */
int zc_pipeline_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max);
/* Why submit or reap failed. */
const struct zc_error *zc_pipeline_error(struct zc_pipeline *pipeline);

/* Between requests only. */
void zc_pipeline_set_wait(struct zc_pipeline *pipeline, enum zc_wait wait);
/* Start timing every stage from zero, or stop. While it is on, the clock is read several times a chunk. */
void zc_pipeline_time_stages(struct zc_pipeline *pipeline, bool on);
/* Record every stage of every chunk in the trace from now on, or no more. The caller's thread, also between two reaps. */
void zc_pipeline_set_tracing(struct zc_pipeline *pipeline, bool on);
/* The caller has just spent so long on something that is none of the stages. */
void zc_pipeline_skip_ns(struct zc_pipeline *pipeline, uint64_t duration_ns);
uint64_t zc_pipeline_stage_ns(const struct zc_pipeline *pipeline, enum zc_stage stage);

/* What requests of options.size_bytes go through. */
struct zc_stages {
    bool copies, registers;     /* registers: before(), and in after() deregistering or giving back */
};
struct zc_stages zc_pipeline_stages(const struct zc_pipeline *pipeline);

/* This user memory is about to be unmapped, remapped or discarded (munmap(2), mremap(2), MADV_DONTNEED, free(3) of what it may give
 * back), and no request into it is in flight: a registration that a cached_* strategy keeps of it must not be used again. With every
 * other strategy there is none, and nothing is done. Call it before. Any thread. 0, or a negative errno of ibv_dereg_mr(3). */
int zc_pipeline_forget(struct zc_pipeline *pipeline, void *address, uint64_t length_bytes);

/* Is the connection still there? Waiting looks by itself; this is for an owner whose READs have always completed before it waits.
 * Costs a system call. 0, or the pipeline has failed. The owner's thread. */
int zc_pipeline_check(struct zc_pipeline *pipeline);

/* What the pipeline has caused since it was created, all of its threads together, but for the caller's own CPU time and allocator
 * calls. Between requests the figures stand still. */
struct zc_pipeline_use {
    uint64_t registrations;             /* ibv_reg_mr(3) calls for requests */
    uint64_t allocations;               /* allocator calls of its threads; 0 unless they are counted (params.thread_allocations) */
    uint64_t registering_allocations;   /* those within ibv_reg_mr(3) and ibv_dereg_mr(3), whatever thread called */
    uint64_t cpu_user_ns, cpu_system_ns;/* of its threads */
    bool caches;                        /* it has a registration cache, which the next three are of */
    uint64_t cache_hits, cache_misses, cache_evictions;     /* registrations that were there, were not, or had to make room */
};
/* cpu: measure CPU time too, which asks every thread and waits for the answer. */
void zc_pipeline_use(struct zc_pipeline *pipeline, bool cpu, struct zc_pipeline_use *use);

/* What it came to: chunk_bytes, chunks, staging_*, qps, outstanding_reads, max_read_bytes of *terms. */
void zc_pipeline_terms(const struct zc_pipeline *pipeline, struct zc_terms *terms);

#endif
