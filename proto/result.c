/* Names and initial values of a result: see result.h. */
#include "result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const zc_run_state_names[] = {
    [ZC_RUN_DONE] = "done", [ZC_RUN_FAILED] = "failed", [ZC_RUN_CANCELLED] = "cancelled", NULL,
};

const char *const zc_phase_names[] = {
    [ZC_PHASE_QUEUED] = "queued",         [ZC_PHASE_CONNECT] = "connect",       [ZC_PHASE_SETUP] = "setup",
    [ZC_PHASE_VALIDATE] = "validate",     [ZC_PHASE_WARMUP] = "warmup",         [ZC_PHASE_LATENCY] = "latency",
    [ZC_PHASE_THROUGHPUT] = "throughput", [ZC_PHASE_PHASES] = "phases",         [ZC_PHASE_COST] = "cost",
    [ZC_PHASE_END] = "end",               NULL,
};

static const struct zc_latency unmeasured_latency = {
    .min_ns = ZC_UNMEASURED, .p50_ns = ZC_UNMEASURED, .p90_ns = ZC_UNMEASURED, .p95_ns = ZC_UNMEASURED, .p99_ns = ZC_UNMEASURED,
    .p99_9_ns = ZC_UNMEASURED, .p99_99_ns = ZC_UNMEASURED, .max_ns = ZC_UNMEASURED, .mean_ns = NAN,
};

void zc_environment_init(struct zc_environment *environment)
{
    memset(environment, 0, sizeof(*environment));
    environment->memory_bytes = environment->memory_free_bytes = ZC_UNMEASURED;
    environment->page_size_bytes = environment->llc_bytes = ZC_UNMEASURED;
    environment->memlock_limit_bytes = ZC_UNMEASURED;
    environment->device.rate_gbit_per_s = NAN;
    environment->device.numa_node = -1;
}

static void terms_init(struct zc_terms *terms)
{
    terms->inflight = terms->footprint_bytes = terms->buffers = terms->huge_page_bytes = ZC_UNMEASURED;
    terms->chunk_bytes = terms->chunks = terms->staging_bytes = terms->staging_slots = terms->staging_huge_page_bytes = ZC_UNMEASURED;
    terms->memory_max_bytes = terms->max_read_bytes = terms->page_bytes = ZC_UNMEASURED;
    terms->wait = -1;
    terms->memory_numa_node = terms->thread_numa_node = -1;
    terms->relaxed_ordering = -1;
}

void zc_result_init(struct zc_result *result)
{
    memset(result, 0, sizeof(*result));
    zc_run_options_init(&result->config);
    result->owner_uid = ZC_UNMEASURED;
    zc_environment_init(&result->environment);
    terms_init(&result->terms);
    result->available = result->reclaimed = unmeasured_latency;
    result->cost.device_cpu_ns = result->cost.registrations = ZC_UNMEASURED;
    result->cost.allocations = result->cost.registering_allocations = ZC_UNMEASURED;
    result->cost.cache_hits = result->cost.cache_misses = result->cost.cache_evictions = ZC_UNMEASURED;
    result->phases.register_ns = result->phases.post_ns = result->phases.wait_ns = NAN;
    result->phases.copy_ns = result->phases.deregister_ns = NAN;
    result->phases.discard_ns = result->phases.consume_ns = NAN;
    result->validation.mode = result->config.validate;
    result->validation.first_bad_offset = ZC_UNMEASURED;
}

void zc_result_destroy(struct zc_result *result)
{
    free(result->throughput.series_bytes);
    result->throughput.series_bytes = NULL;
    result->throughput.series_length = 0;
}
