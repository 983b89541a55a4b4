/* The strategies: what each one is called and what it is made of, for everybody who only talks about them. The engine's side of
 * the same table, with the functions, is src/strategy/table.c. Static; any thread. */
#ifndef ZC_STRATEGIES_H
#define ZC_STRATEGIES_H

#include <stdbool.h>

enum zc_strategy_id {
    ZC_COPY_BLOCKING,
    ZC_COPY_NON_BLOCKING,
    ZC_COPY_ASYNC,
    ZC_NAIVE_BLOCKING,
    ZC_NAIVE_NON_BLOCKING,
    ZC_NAIVE_ASYNC,
    ZC_PIPELINE_BLOCKING,
    ZC_PIPELINE_NON_BLOCKING,
    ZC_PIPELINE_ASYNC,
    ZC_IDEAL_BLOCKING,
    ZC_IDEAL_NON_BLOCKING,
    ZC_CACHED_BLOCKING,
    ZC_CACHED_NON_BLOCKING,
    ZC_CACHED_ASYNC,
    ZC_ODP_BLOCKING,
    ZC_ODP_NON_BLOCKING,
    ZC_ODP_ASYNC,
    ZC_HYBRID_BLOCKING,
    ZC_HYBRID_NON_BLOCKING,
    ZC_HYBRID_ASYNC,
    ZC_STRATEGY_COUNT,
};

/* The three choices that describe a strategy completely. */
enum zc_memory_kind {
    ZC_MEMORY_STAGING,          /* READ into memory registered once, then copy */
    ZC_MEMORY_REGISTER,         /* register the user's buffer, READ, deregister */
    ZC_MEMORY_PREREGISTERED,    /* READ into the user's buffer, registered once and for all */
    ZC_MEMORY_CACHED,           /* register at the first use, and keep the registration in a cache */
    ZC_MEMORY_ODP,              /* the same without pinning: the device faults pages in on demand (IBV_ACCESS_ON_DEMAND) */
    ZC_MEMORY_HYBRID,           /* staging for requests below options.threshold, register for the others */
};
enum zc_execution_kind {
    ZC_EXECUTION_BLOCKING,      /* the caller's thread does every stage of one request */
    ZC_EXECUTION_NON_BLOCKING,  /* long stages on threads of their own, the caller submits and reaps */
    ZC_EXECUTION_ASYNC,         /* an event loop on the completion channel, long stages on a pool */
};
enum zc_chunking {              /* what one chunk of a request is */
    ZC_CHUNK_WHOLE,             /* the request */
    ZC_CHUNK_MR_SIZE,           /* options.mr_size */
    ZC_CHUNK_CHUNK_SIZE,        /* options.chunk_size */
};

struct zc_strategy_info {
    const char *name;
    const char *alias;          /* another spelling that is understood, NULL: none */
    enum zc_memory_kind memory;
    enum zc_execution_kind execution;
    enum zc_chunking chunking;
    bool composite;             /* at one size it is what another strategy is: not among "all" */
    const char *shows;          /* one line, no full stop: what its figures tell */
};

extern const struct zc_strategy_info zc_strategy_infos[ZC_STRATEGY_COUNT];  /* by enum zc_strategy_id */
extern const char *const zc_strategy_names[];       /* the same names, NULL-terminated */
extern const char *const zc_memory_names[];         /* "staging", "register", "preregistered", ... */
extern const char *const zc_execution_names[];      /* "blocking", "non_blocking", "async" */
extern const char *const zc_chunking_names[];       /* "request", "mr_size", "chunk_size" */

/* enum zc_strategy_id of a name or alias, '-' and '_' alike; -1: there is none. */
int zc_strategy_find(const char *name);

#endif
