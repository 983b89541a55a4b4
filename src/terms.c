/* The terms of a run that are the same for every strategy: where its threads are, how its memory is registered, how its user buffers
 * lie. Steps and helpers of measure.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "callers.h"
#include "measure_private.h"
#include "reuse_private.h"

/* Before anything of the run exists: what it allocates and the threads that it starts follow this one. */
int zc_run_place(struct zc_run *run)
{
    const struct zc_measure_params *const params = run->params;
    if (zc_reuse_placement(run))
        return 0;
    const int rc = zc_placement_create(params->options.numa, zc_device_info(params->device), &run->placement, &run->result->error);
    if (rc == 0 && zc_placement_node(run->placement) >= 0)
        run->threads_bound = zc_placement_apply(run->placement) == 0;
    return rc;
}

/* Relaxed ordering is one of the flags that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE, ibv_reg_mr(3)); whether it refuses it
 * is asked here, whether it makes a difference is what a run measures. */
int zc_run_relax(struct zc_run *run)
{
    const enum zc_relaxed_ordering asked = (enum zc_relaxed_ordering)run->params->options.relaxed_ordering;
    run->result->terms.relaxed_ordering = 0;
    if (asked == ZC_RELAXED_OFF)
        return 0;
    const int rc = zc_mr_probe(run->params->device, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    if (rc < 0 && asked == ZC_RELAXED_ON)
        return zc_error_set(&run->result->error, ZC_ERR_DEVICE, rc, "relaxed_ordering", "%s refuses memory with relaxed ordering: %s",
                            zc_device_info(run->params->device)->name, strerror(-rc));
    if (rc == 0) {
        run->mr_access = IBV_ACCESS_RELAXED_ORDERING;
        run->result->terms.relaxed_ordering = 1;
    }
    return 0;
}

uint32_t zc_run_threads_max(const struct zc_run_options *options)
{
    const struct zc_strategy_info *const strategy = &zc_strategy_infos[options->strategy];
    const bool copies = strategy->memory == ZC_MEMORY_STAGING ||
                        (strategy->memory == ZC_MEMORY_HYBRID && options->size_bytes < options->threshold_bytes);
    if (strategy->execution == ZC_EXECUTION_BLOCKING || strategy->memory == ZC_MEMORY_PREREGISTERED || strategy->memory == ZC_MEMORY_ODP)
        return 1;
    if (strategy->execution == ZC_EXECUTION_ASYNC || copies)
        return 1 + (uint32_t)options->concurrency;
    return 1 + (uint32_t)(options->concurrency_reg + (strategy->memory == ZC_MEMORY_CACHED ? 0 : options->concurrency_dereg));
}

uint64_t zc_run_buffer_stride(const struct zc_run_options *options)
{
    const uint64_t page = options->buffers == ZC_BUFFERS_FRESH ? zc_pages_bytes((enum zc_pages)options->pages) : 0;
    struct zc_layout layout;
    zc_layout_make(options->size_bytes, options->pieces, options->align_bytes, page, &layout);
    return layout.stride_bytes;
}

int zc_run_create_buffers(struct zc_run *run)
{
    struct zc_terms *const terms = &run->result->terms;
    if (zc_reuse_buffers(run)) {
        terms->huge_page_bytes = run->params->reuse->huge_bytes;
    } else {
        const int rc = zc_buffer_create_pages(terms->footprint_bytes, (enum zc_pages)run->params->options.pages,
                                              zc_placement_node(run->placement), &run->user, &run->result->error);
        if (rc < 0)
            return rc;
        terms->huge_page_bytes = zc_buffer_huge_bytes(&run->user);
    }
    terms->page_bytes = run->user.page_bytes;
    terms->memory_numa_node = run->user.numa_node;
    terms->thread_numa_node = run->threads_bound ? zc_placement_node(run->placement) : -1;
    zc_placement_text(run->placement, run->threads_bound, run->user.numa_node >= 0, terms->placement, sizeof terms->placement);
    return 0;
}

int zc_run_load_terms(struct zc_run *run)
{
    const struct zc_run_options *const options = &run->params->options;
    const uint64_t requests = run->result->terms.inflight;
    struct zc_layout layout;
    zc_layout_make(options->size_bytes, options->pieces, options->align_bytes, 0, &layout);
    if (layout.pieces > 1) {
        run->pieces = calloc(requests * layout.pieces, sizeof *run->pieces);
        if (!run->pieces)
            return zc_error_set(&run->result->error, ZC_ERR_RESOURCE, -ENOMEM, "pieces", "no memory for %" PRIu64 " requests of %" PRIu32
                                " pieces", requests, layout.pieces);
    }
    zc_load_lay_out(&run->load, &layout, run->pieces);
    if (options->buffers == ZC_BUFFERS_FRESH)
        zc_load_fresh(&run->load, run->user.page_bytes);
    run->load.consume = options->consume;
    return 0;
}

/* --- the trace ------------------------------------------------------------------------------------------------- */

enum { TRACE_RECORDS = 1 << 17 };       /* 4 MiB in memory, about 20 MiB as a file */

/* The window that is traced: the last one, with as many requests in flight as there are. */
static enum zc_phase traced_window(const struct zc_run *run)
{
    return run->params->options.skip_throughput ? ZC_PHASE_LATENCY : ZC_PHASE_THROUGHPUT;
}

int zc_run_create_trace(struct zc_run *run)
{
    if (!run->params->options.logging || run->number > 0)
        return 0;
    return zc_trace_create(zc_callers_count(run->callers) * zc_run_threads_max(&run->params->options), TRACE_RECORDS, &run->trace,
                           &run->result->error);
}

void zc_run_trace_opened(struct zc_run *run, uint64_t start_ns)
{
    if (!run->trace || run->window_phase != traced_window(run))
        return;
    run->trace_start_ns = start_ns;
    zc_pipeline_set_tracing(run->pipeline, true);
}

void zc_run_trace_ended(struct zc_run *run)
{
    if (run->trace)
        zc_pipeline_set_tracing(run->pipeline, false);
}

/* No thread records any more: the pipeline is gone. What a run that failed or was cancelled recorded is worth a file, too. */
int zc_run_write_trace(struct zc_run *run, struct zc_error *err)
{
    struct zc_trace_summary *const summary = &run->result->trace;
    struct zc_trace_counts counts;
    char title[128];
    if (!run->trace || run->trace_start_ns == 0)
        return 0;
    zc_trace_counts(run->trace, &counts);
    *summary = (struct zc_trace_summary){
        .made = true, .latency = traced_window(run) == ZC_PHASE_LATENCY, .records = counts.records, .dropped = counts.dropped,
        .threads = counts.threads, .record_ns = zc_trace_cost_ns(),
    };
    if (!run->params->trace_path)
        return 0;
    snprintf(title, sizeof title, "%s, %" PRIu64 " bytes a request", zc_strategy_names[run->strategy->id],
             run->params->options.size_bytes);
    const int rc = zc_trace_write(run->trace, run->params->trace_path, title, run->trace_start_ns, err);
    if (rc == 0)
        snprintf(summary->path, sizeof summary->path, "%s", run->params->trace_path);
    return rc;
}
