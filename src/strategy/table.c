/* The strategies, in the order of enum zc_strategy_id. A new one is a row here and one in proto/strategies.c, which names it and says
 * what it is made of; this one has the functions of those parts. */
#include "pipeline_private.h"

#define ROW(ID, MEMORY, EXECUTION) \
    [ID] = {.id = ID, .info = &zc_strategy_infos[ID], .memory = &zc_memory_##MEMORY, .execution = &zc_execution_##EXECUTION}

const struct zc_strategy zc_strategies[ZC_STRATEGY_COUNT] = {
    ROW(ZC_COPY_BLOCKING, staging, blocking),
    ROW(ZC_COPY_NON_BLOCKING, staging, non_blocking),
    ROW(ZC_COPY_ASYNC, staging, async),
    ROW(ZC_NAIVE_BLOCKING, register, blocking),
    ROW(ZC_NAIVE_NON_BLOCKING, register, non_blocking),
    ROW(ZC_NAIVE_ASYNC, register, async),
    ROW(ZC_PIPELINE_BLOCKING, register, blocking),
    ROW(ZC_PIPELINE_NON_BLOCKING, register, non_blocking),
    ROW(ZC_PIPELINE_ASYNC, register, async),
    ROW(ZC_IDEAL_BLOCKING, preregistered, blocking),
    ROW(ZC_IDEAL_NON_BLOCKING, preregistered, non_blocking),
    ROW(ZC_CACHED_BLOCKING, cached, blocking),
    ROW(ZC_CACHED_NON_BLOCKING, cached, non_blocking),
    ROW(ZC_CACHED_ASYNC, cached, async),
    ROW(ZC_ODP_BLOCKING, odp, blocking),
    ROW(ZC_ODP_NON_BLOCKING, odp, non_blocking),
    ROW(ZC_ODP_ASYNC, odp, async),
    ROW(ZC_HYBRID_BLOCKING, hybrid, blocking),
    ROW(ZC_HYBRID_NON_BLOCKING, hybrid, non_blocking),
    ROW(ZC_HYBRID_ASYNC, hybrid, async),
};
