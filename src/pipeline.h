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
#include "result.h"

struct zc_pipeline;

/* One read of options.size_bytes into one user buffer. */
struct zc_request {
    /* The caller's, set before zc_pipeline_submit(). */
    uint8_t *user;              /* where the bytes are wanted */
    uint64_t remote_offset;     /* in the peer's region */
    uint64_t submit_ns;         /* for the caller's own use: most passes need no clock here */
    /* Written when it is reaped (CLOCK_MONOTONIC). */
    uint64_t available_ns;      /* its bytes were in the user's buffer */
    uint64_t reclaimed_ns;      /* and the buffer free of RDMA state */
    /* The pipeline's own. */
    uint64_t cut_bytes;         /* handed out to chunks so far */
    uint32_t landing;           /* chunks whose READ has not completed */
    uint32_t finishing;         /* chunks that have not gone through after() */
};

/* A chunk record lives from before() to after(); there are as many as may be alive at once. Its index is the wr_id of its READ. */
enum zc_chunk_state {
    ZC_CHUNK_IDLE,              /* free */
    ZC_CHUNK_READY,             /* before() has given it local memory */
    ZC_CHUNK_POSTED,            /* its READ is in flight */
    ZC_CHUNK_LANDED,            /* completed; after() has not run */
};

struct zc_chunk {
    enum zc_chunk_state state;
    uint32_t index;             /* of this record: also the staging slot that goes with it */
    uint32_t length_bytes;
    uint32_t lane;              /* the QP that its READ went to */
    uint64_t remote_offset;     /* in the peer's region */
    uint8_t *user;              /* its place in the user's buffer */
    struct zc_request *request;
    struct ibv_sge sge;         /* where the READ lands; set by before() */
    void *memory;               /* before()'s own: an MR, for instance */
};

/* Axis 1: local memory. before() may answer -EAGAIN: nothing is free now. Any other negative errno ends the run; the function has
 * said why with zc_pipeline_fail(). */
struct zc_memory_ops {
    const char *name;                   /* "staging", "register", "preregistered" */
    bool copies, registers;             /* which phases it has: what before() and after() spend their time on */
    uint32_t (*slots)(const struct zc_pipeline *pipeline);  /* chunks wanted alive at once; NULL: as many as may be in flight */
    int (*setup)(struct zc_pipeline *pipeline, struct zc_error *err);
    void (*teardown)(struct zc_pipeline *pipeline);     /* after a failed setup too; releases what chunks still hold */
    int (*before)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
    int (*after)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
};

/* Axis 2: who drives the stages. Each is written once, from the blocks in pipeline_private.h. */
struct zc_execution_ops {
    const char *name;                   /* "blocking", "non_blocking", "async" */
    bool one_request;                   /* takes one request at a time, whatever operations_max says */
    int (*setup)(struct zc_pipeline *pipeline, struct zc_error *err);   /* NULL: nothing to do */
    void (*teardown)(struct zc_pipeline *pipeline);                     /* NULL: nothing to do; after a failed setup too */
    int (*submit)(struct zc_pipeline *pipeline, struct zc_request *request);
    /* Work or wait until at least one request is reclaimed. How many were written to `done`, or a negative errno. */
    int (*reap)(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max);
};

/* Axis 3: which option is the chunk, or the whole request. */
enum zc_chunking { ZC_CHUNK_WHOLE, ZC_CHUNK_MR_SIZE, ZC_CHUNK_CHUNK_SIZE };

struct zc_strategy {
    enum zc_strategy_id id;
    const struct zc_memory_ops *memory;
    const struct zc_execution_ops *execution;
    enum zc_chunking chunking;
    const char *shows;                  /* one line: what this strategy shows */
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
    const struct zc_buffer *user;           /* all user buffers, for memory that is registered at set-up */
    int numa_node;                          /* for the pipeline's own memory; -1: anywhere */
    int cancel_fd;                          /* readable when *cancel is set; -1: none */
    const atomic_bool *cancel;              /* NULL: cannot be cancelled */
    uint64_t stuck_ns;                      /* no completion for so long is an error; 0: 10 s */
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
const struct zc_error *zc_pipeline_error(const struct zc_pipeline *pipeline);

/* Between requests only. */
void zc_pipeline_set_wait(struct zc_pipeline *pipeline, enum zc_wait wait);
/* Start timing every stage from zero, or stop. While it is on, the clock is read several times a chunk. */
void zc_pipeline_time_stages(struct zc_pipeline *pipeline, bool on);
/* The caller has just spent so long on something that is none of the stages. */
void zc_pipeline_skip_ns(struct zc_pipeline *pipeline, uint64_t duration_ns);
uint64_t zc_pipeline_stage_ns(const struct zc_pipeline *pipeline, enum zc_stage stage);

/* What it came to: chunk_bytes, chunks, staging_*, qps, outstanding_reads, max_read_bytes of *terms. */
void zc_pipeline_terms(const struct zc_pipeline *pipeline, struct zc_terms *terms);

#endif
