/* What all strategies share: a request is cut into chunks, and each chunk goes [before] -> post READ -> completion -> [after].
 * A strategy is a row: which memory (what before and after do), which execution (who drives it), which chunking. All arrays are
 * sized at set-up; nothing here allocates afterwards. */
#ifndef ZC_PIPELINE_H
#define ZC_PIPELINE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "connection.h"
#include "options.h"
#include "post.h"
#include "result.h"

struct zc_pipeline;

enum zc_chunk_state {       /* in this order; a chunk of a finished request is IDLE */
    ZC_CHUNK_IDLE,
    ZC_CHUNK_READY,         /* before() has given it local memory */
    ZC_CHUNK_POSTED,        /* its READ is in flight */
    ZC_CHUNK_LANDED,        /* completed; after() has not run */
};

struct zc_chunk {
    enum zc_chunk_state state;
    uint32_t request;           /* index of its request */
    uint32_t length_bytes;
    uint64_t remote_offset;     /* in the peer's region */
    uint8_t *user;              /* its place in the user's buffer */
    struct ibv_sge sge;         /* where the READ lands; set by before() */
    void *memory;               /* before()'s own: a staging slot, an MR */
};

/* Axis 1. Each function gets the pipeline's own state back. before() may answer -EAGAIN: nothing free now. */
struct zc_memory_ops {
    const char *name;                   /* "staging", "register", "preregistered" */
    int (*setup)(struct zc_pipeline *pipeline, struct zc_error *err);
    void (*teardown)(struct zc_pipeline *pipeline);     /* after a partial setup too; releases what chunks still hold */
    int (*before)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
    int (*after)(struct zc_pipeline *pipeline, struct zc_chunk *chunk);
    bool copies, registers;             /* which phases it has */
};

/* Axis 2. submit()/reap() drive requests; see execution/. */
struct zc_execution_ops;

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

#endif
