/* The table of the strategies' names and parts: see strategies.h. */
#include "strategies.h"

#include <stddef.h>

#include "options.h"

const struct zc_strategy_info zc_strategy_infos[ZC_STRATEGY_COUNT] = {
    [ZC_COPY_BLOCKING] = {
        .name = "copy_blocking", .memory = ZC_MEMORY_STAGING,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_MR_SIZE,
        .shows = "what a copy costs when one thread reads into staging memory and copies beside other READs",
    },
    [ZC_COPY_NON_BLOCKING] = {
        .name = "copy_non_blocking", .memory = ZC_MEMORY_STAGING,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_MR_SIZE,
        .shows = "how far threads that only copy keep up with the wire, with many requests in flight",
    },
    [ZC_COPY_ASYNC] = {
        .name = "copy_async", .memory = ZC_MEMORY_STAGING,
        .execution = ZC_EXECUTION_ASYNC, .chunking = ZC_CHUNK_MR_SIZE,
        .shows = "what copying costs a program that sleeps for events and has a pool for it",
    },
    [ZC_NAIVE_BLOCKING] = {
        .name = "naive_blocking", .memory = ZC_MEMORY_REGISTER,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_WHOLE,
        .shows = "what registering the whole buffer, reading and deregistering cost one after the other",
    },
    [ZC_NAIVE_NON_BLOCKING] = {
        .name = "naive_non_blocking", .memory = ZC_MEMORY_REGISTER,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_WHOLE,
        .shows = "how far threads that register and deregister whole buffers keep up with the wire",
    },
    [ZC_NAIVE_ASYNC] = {
        .name = "naive_async", .memory = ZC_MEMORY_REGISTER,
        .execution = ZC_EXECUTION_ASYNC, .chunking = ZC_CHUNK_WHOLE,
        .shows = "what registering whole buffers costs a program that sleeps for events and has a pool for it",
    },
    [ZC_PIPELINE_BLOCKING] = {
        .name = "pipeline_blocking", .memory = ZC_MEMORY_REGISTER,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "how much of the registration one thread can hide behind the READs, chunk by chunk",
    },
    [ZC_PIPELINE_NON_BLOCKING] = {
        .name = "pipeline_non_blocking", .memory = ZC_MEMORY_REGISTER,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "whether registering chunks on threads of their own hides it behind the READs",
    },
    [ZC_PIPELINE_ASYNC] = {
        .name = "pipeline_async", .memory = ZC_MEMORY_REGISTER,
        .execution = ZC_EXECUTION_ASYNC, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "what registering chunks costs a program that sleeps for events and has a pool for it",
    },
    [ZC_IDEAL_BLOCKING] = {
        .name = "ideal_blocking", .alias = "blocking_ideal", .memory = ZC_MEMORY_PREREGISTERED,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "the ceiling for one request at a time: no copy, no registration",
    },
    [ZC_IDEAL_NON_BLOCKING] = {
        .name = "ideal_non_blocking", .alias = "non_blocking_ideal", .memory = ZC_MEMORY_PREREGISTERED,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "the ceiling with many requests in flight: no copy, no registration",
    },
    [ZC_CACHED_BLOCKING] = {
        .name = "cached_blocking", .memory = ZC_MEMORY_CACHED,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "what is left of the registration where buffers come back and a cache knows them",
    },
    [ZC_CACHED_NON_BLOCKING] = {
        .name = "cached_non_blocking", .memory = ZC_MEMORY_CACHED,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "the same with many requests in flight; threads register what the cache does not know",
    },
    [ZC_CACHED_ASYNC] = {
        .name = "cached_async", .memory = ZC_MEMORY_CACHED,
        .execution = ZC_EXECUTION_ASYNC, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "a registration cache in a program that sleeps for events and has a pool for its misses",
    },
    [ZC_ODP_BLOCKING] = {
        .name = "odp_blocking", .memory = ZC_MEMORY_ODP,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "what it costs that the device faults pages in instead of finding them pinned",
    },
    [ZC_ODP_NON_BLOCKING] = {
        .name = "odp_non_blocking", .memory = ZC_MEMORY_ODP,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "the same with many requests in flight, whose page faults may overlap",
    },
    [ZC_ODP_ASYNC] = {
        .name = "odp_async", .memory = ZC_MEMORY_ODP,
        .execution = ZC_EXECUTION_ASYNC, .chunking = ZC_CHUNK_CHUNK_SIZE,
        .shows = "memory on demand for a program that sleeps for events",
    },
    [ZC_HYBRID_BLOCKING] = {
        .name = "hybrid_blocking", .memory = ZC_MEMORY_HYBRID,
        .execution = ZC_EXECUTION_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE, .composite = true,
        .shows = "copy_blocking below --threshold and pipeline_blocking from it on: is the threshold right?",
    },
    [ZC_HYBRID_NON_BLOCKING] = {
        .name = "hybrid_non_blocking", .memory = ZC_MEMORY_HYBRID,
        .execution = ZC_EXECUTION_NON_BLOCKING, .chunking = ZC_CHUNK_CHUNK_SIZE, .composite = true,
        .shows = "copy_non_blocking below --threshold and pipeline_non_blocking from it on",
    },
    [ZC_HYBRID_ASYNC] = {
        .name = "hybrid_async", .memory = ZC_MEMORY_HYBRID,
        .execution = ZC_EXECUTION_ASYNC, .chunking = ZC_CHUNK_CHUNK_SIZE, .composite = true,
        .shows = "copy_async below --threshold and pipeline_async from it on",
    },
};

#define NAME(id, name) [id] = name
const char *const zc_strategy_names[] = {
    NAME(ZC_COPY_BLOCKING, "copy_blocking"),
    NAME(ZC_COPY_NON_BLOCKING, "copy_non_blocking"),
    NAME(ZC_COPY_ASYNC, "copy_async"),
    NAME(ZC_NAIVE_BLOCKING, "naive_blocking"),
    NAME(ZC_NAIVE_NON_BLOCKING, "naive_non_blocking"),
    NAME(ZC_NAIVE_ASYNC, "naive_async"),
    NAME(ZC_PIPELINE_BLOCKING, "pipeline_blocking"),
    NAME(ZC_PIPELINE_NON_BLOCKING, "pipeline_non_blocking"),
    NAME(ZC_PIPELINE_ASYNC, "pipeline_async"),
    NAME(ZC_IDEAL_BLOCKING, "ideal_blocking"),
    NAME(ZC_IDEAL_NON_BLOCKING, "ideal_non_blocking"),
    NAME(ZC_CACHED_BLOCKING, "cached_blocking"),
    NAME(ZC_CACHED_NON_BLOCKING, "cached_non_blocking"),
    NAME(ZC_CACHED_ASYNC, "cached_async"),
    NAME(ZC_ODP_BLOCKING, "odp_blocking"),
    NAME(ZC_ODP_NON_BLOCKING, "odp_non_blocking"),
    NAME(ZC_ODP_ASYNC, "odp_async"),
    NAME(ZC_HYBRID_BLOCKING, "hybrid_blocking"),
    NAME(ZC_HYBRID_NON_BLOCKING, "hybrid_non_blocking"),
    NAME(ZC_HYBRID_ASYNC, "hybrid_async"),
    NAME(ZC_STRATEGY_COUNT, NULL),
};
const char *const zc_memory_names[] = {
    NAME(ZC_MEMORY_STAGING, "staging"), NAME(ZC_MEMORY_REGISTER, "register"),
    NAME(ZC_MEMORY_PREREGISTERED, "preregistered"), NAME(ZC_MEMORY_CACHED, "cached"),
    NAME(ZC_MEMORY_ODP, "odp"), NAME(ZC_MEMORY_HYBRID, "hybrid"), NULL,
};
const char *const zc_execution_names[] = {
    NAME(ZC_EXECUTION_BLOCKING, "blocking"), NAME(ZC_EXECUTION_NON_BLOCKING, "non_blocking"),
    NAME(ZC_EXECUTION_ASYNC, "async"), NULL,
};
const char *const zc_chunking_names[] = {
    NAME(ZC_CHUNK_WHOLE, "request"), NAME(ZC_CHUNK_MR_SIZE, "mr_size"), NAME(ZC_CHUNK_CHUNK_SIZE, "chunk_size"), NULL,
};

int zc_strategy_find(const char *name)
{
    int id = zc_choice_find(zc_strategy_names, name);
    for (int i = 0; id < 0 && i < ZC_STRATEGY_COUNT; i++)
        if (zc_strategy_infos[i].alias && zc_choice_find((const char *const[]){zc_strategy_infos[i].alias, NULL}, name) == 0)
            id = i;
    return id;
}
