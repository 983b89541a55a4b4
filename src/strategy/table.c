/* The strategies, in the order of enum zc_strategy_id. A new one is a row; its name is in proto/options.c. */
#include "pipeline_private.h"

const struct zc_strategy zc_strategies[ZC_STRATEGY_COUNT] = {
    [ZC_COPY_BLOCKING] = {
        .id = ZC_COPY_BLOCKING,
        .memory = &zc_memory_staging,
        .execution = &zc_execution_blocking,
        .chunking = ZC_CHUNK_MR_SIZE,
        .shows = "what a copy costs when one thread reads into staging memory and copies while other chunks fly",
    },
};
