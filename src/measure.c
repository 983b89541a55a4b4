/* A run from connecting to releasing: what is set up, in which order the windows of passes.c come, and the way back. */
#include "measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "callers.h"
#include "environment.h"
#include "measure_private.h"
#include "reuse_private.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    CONTROL_ENTRIES = 4,        /* of the CQ: an ALIVE and a BYE of the connection may be flushed there, and a little more */
    SEND_SLOTS = 128,           /* READs that a QP has room for; the negotiated depth is at most this on today's NICs */
    TICK_NS = 100000000,
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- set-up ---------------------------------------------------------------------------------------------------- */

/* What the run would need against what there is; before anything is opened. */
static int run_prepare(struct zc_run *run)
{
    const struct zc_measure_params *const params = run->params;
    struct zc_result *const result = run->result;
    if (!zc_reuse_environment(run))
        zc_environment_read(&result->environment);
    struct zc_error ignored;
    result->environment.device = *zc_device_info(params->device);
    zc_device_look(params->device, &result->environment.device, &ignored);
    snprintf(result->peer.host, sizeof result->peer.host, "%s", params->host);
    result->peer.port = params->port;

    const uint64_t half = result->environment.memory_free_bytes / 2;
    const uint32_t callers = zc_callers_count(run->callers);
    const uint64_t memory_max = min_u64(params->options.memory_max_bytes, half) / callers;
    result->terms.memory_max_bytes = memory_max;
    if (params->options.size_bytes > memory_max)
        return zc_error_set(&result->error, ZC_ERR_INVALID, -EINVAL, "size",
                            "size %" PRIu64 " is larger than memory_max %" PRIu64 "%s", params->options.size_bytes, memory_max,
                            callers > 1 ? " of each caller" : memory_max == half ? " (half of the free memory)" : "");
    return 0;
}

/* READs that each QP has room for: all of them complete on one CQ, beside CONTROL_ENTRIES. */
static uint32_t send_slots(const struct zc_device_info *device, uint32_t qps)
{
    uint64_t slots = SEND_SLOTS;
    if (device->max_qp_wr > 0)
        slots = min_u64(slots, device->max_qp_wr);
    if (device->max_cqe > CONTROL_ENTRIES && (device->max_cqe - CONTROL_ENTRIES) / qps > 0)
        slots = min_u64(slots, (device->max_cqe - CONTROL_ENTRIES) / qps);
    return (uint32_t)slots;
}

static int check_size(struct zc_run *run)
{
    const struct zc_measure_params *const params = run->params;
    const uint64_t region = run->result->peer.region_bytes;
    if (params->options.size_bytes <= region)
        return 0;
    return zc_error_set(&run->result->error, ZC_ERR_INVALID, -EINVAL, "size", "size %" PRIu64 " is larger than the peer's region of "
                        "%" PRIu64 " bytes", params->options.size_bytes, region);
}

/* From here on the peer hears of this caller, whatever it does or waits for. */
static int connected(struct zc_run *run)
{
    const int rc = check_size(run);
    return rc < 0 ? rc : zc_keeper_create(run->connection, &run->keeper, &run->result->error);
}

static int run_connect(struct zc_run *run)
{
    const struct zc_measure_params *const params = run->params;
    struct zc_error *const err = &run->result->error;
    const uint32_t qps = (uint32_t)params->options.qps;
    run->send_slots = send_slots(zc_device_info(params->device), qps);
    zc_run_enter(run, ZC_PHASE_CONNECT, 0);
    if (zc_reuse_connection(run))
        return connected(run);
    int rc = zc_completion_create_family(params->device, (int)(qps * run->send_slots + CONTROL_ENTRIES), (enum zc_family)params->options.post,
                                         &run->completion, err);
    if (rc < 0)
        return rc;
    const struct zc_connection_params connection = {
        .host = params->host, .port = params->port, .qps = qps, .send_slots = run->send_slots, .timeout_ms = CONNECT_TIMEOUT_MS,
        .key = params->key, .tos = (uint8_t)params->options.tos, .post = (enum zc_family)params->options.post,
        .from_device = strcmp(params->options.device, "auto") != 0,
        .cancel_fd = params->cancel_fd, .completion = run->completion,
    };
    rc = zc_connection_open(params->device, &connection, &run->connection, err);
    if (rc < 0)
        return rc;

    const struct zc_remote *const remote = zc_connection_remote(run->connection);
    struct zc_peer_info *const peer = &run->result->peer;
    snprintf(peer->address, sizeof peer->address, "%s", remote->numeric_address);
    peer->port = remote->port;
    peer->region_bytes = remote->size_bytes;
    return connected(run);
}

/* Depth and footprint. The footprint is rounded down to whole buffers, and there are never fewer than requests in flight. */
static void run_plan(struct zc_run *run)
{
    const struct zc_run_options *const options = &run->params->options;
    struct zc_terms *const terms = &run->result->terms;
    const uint64_t stride = zc_run_buffer_stride(options);
    const uint64_t most = max_u64(terms->memory_max_bytes / stride, 1);
    terms->inflight = run->strategy->execution->one_request ? 1 : min_u64(most, options->operations_max);
    const uint64_t footprint = options->footprint_bytes / zc_callers_count(run->callers);
    terms->buffers = min_u64(max_u64(footprint / stride, terms->inflight), most);
    terms->footprint_bytes = terms->buffers * stride;
}

static int create_records(struct zc_run *run)
{
    struct zc_result *const result = run->result;
    run->series_capacity = zc_series_length((uint64_t)(run->params->options.measure_s * 1e9)) + 1;
    result->throughput.series_bytes = calloc(run->series_capacity, sizeof *result->throughput.series_bytes);
    run->available = zc_histogram_create();
    run->reclaimed = zc_histogram_create();
    if (!result->throughput.series_bytes || !run->available || !run->reclaimed)
        return zc_error_set(&result->error, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for the figures of a window of %g s",
                            run->params->options.measure_s);
    /* Written, not only allocated: the first touch of a page must not fall into the window. */
    for (size_t i = 0; i < run->series_capacity; i++)
        ((volatile uint64_t *)result->throughput.series_bytes)[i] = 0;
    return 0;
}

static int create_pipeline(struct zc_run *run)
{
    const struct zc_measure_params *const params = run->params;
    const struct zc_pipeline_params pipeline = {
        .strategy = run->strategy, .options = &params->options, .depth = (uint32_t)run->result->terms.inflight,
        .device = params->device, .completion = run->completion, .connection = run->connection,
        .send_slots = run->send_slots, .user = &run->user, .least_bytes = params->options.size_bytes,
        .cache_bytes = max_u64(params->options.cache_max_bytes / zc_callers_count(run->callers), 1),
        .mr_access = run->mr_access, .trace = run->trace, .caller = run->number,
        .numa_node = run->user.numa_node, .cancel_fd = params->cancel_fd,
        .cancel = params->cancel, .thread_allocations = params->thread_allocations, .idle = zc_load_idle, .idle_arg = &run->load,
    };
    return zc_pipeline_create(&pipeline, &run->pipeline, &run->result->error);
}

static int run_set_up(struct zc_run *run)
{
    const struct zc_run_options *const options = &run->params->options;
    struct zc_result *const result = run->result;
    struct zc_terms *const terms = &result->terms;
    zc_run_enter(run, ZC_PHASE_SETUP, 0);
    run_plan(run);
    if (run->number > 0)    /* the first made it, and the others read it at the same time */
        run->trace = zc_callers_first(run->callers)->trace;
    int rc = create_records(run);
    if (rc == 0)
        rc = zc_run_create_buffers(run);
    if (rc == 0)
        rc = create_pipeline(run);
    if (rc < 0)
        return rc;
    zc_pipeline_terms(run->pipeline, terms);

    zc_load_init(&run->load, run->pipeline, options->size_bytes, run->user.address, terms->buffers, result->peer.region_bytes,
                 options->offset == ZC_OFFSET_ROTATE);
    rc = zc_run_load_terms(run);
    if (rc < 0)
        return rc;
    run->load.cancel = run->params->cancel;
    run->load.stop = run->stop;
    run->load.tick_interval_ns = TICK_NS;
    run->load.tick = zc_run_tick;
    run->load.tick_arg = run;
    return 0;
}

/* The connection goes first: once its QPs are gone, no READ writes into memory that is released after it. */
static void run_release(struct zc_run *run, int rc)
{
    zc_keeper_destroy(run->keeper);
    /* A run that reaped all its requests has nothing in flight, so the connection may outlive the pipeline. */
    if (run->params->reuse && run->pipeline && (rc == 0 || run->result->error.kind == ZC_ERR_UNMEASURED)) {
        zc_pipeline_destroy(run->pipeline);
        run->pipeline = NULL;
        zc_reuse_give_back(run);
    }
    zc_connection_close(run->connection);
    zc_pipeline_destroy(run->pipeline);
    zc_completion_destroy(run->completion);
    zc_buffer_destroy(&run->user);
    free(run->pieces);
    zc_placement_destroy(run->placement);
}

/* Once no thread records any more. A trace that cannot be written fails a run that has not failed already: it was asked for. */
static int finish_trace(struct zc_run *run, int rc)
{
    struct zc_error why;
    const int failed = zc_run_write_trace(run, &why);
    if (failed < 0 && rc == 0) {
        run->result->error = why;
        rc = failed;
    }
    zc_trace_destroy(run->trace);
    return rc;
}

/* --- the run --------------------------------------------------------------------------------------------------- */

/* A step of its own, before the first READ: other callers may still be making their buffers. */
static int run_share(struct zc_run *run)
{
    zc_keeper_share(run->keeper);
    return 0;
}

/* Latency before throughput: what is measured one at a time comes before the caches and queues are filled. The two short passes
 * are last, because they time every stage and sleep. */
static int (*const steps[])(struct zc_run *run) = {
    run_prepare, zc_run_place, zc_run_relax, run_connect, zc_run_create_trace, run_set_up, run_share,
    zc_run_validate, zc_run_latency, zc_run_throughput, zc_run_phases, zc_run_cost,
};

static bool cancelled(const struct zc_measure_params *params)
{
    return params->cancel && atomic_load(params->cancel);
}

static int run_steps(struct zc_run *run)
{
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (cancelled(run->params))
            return zc_error_set(&run->result->error, ZC_ERR_CANCELLED, -ECANCELED, NULL, "cancelled");
        if (zc_callers_meet(run->callers) < 0)
            return zc_error_set(&run->result->error, ZC_ERR_CANCELLED, -ECANCELED, NULL, "another caller has failed");
        const int rc = steps[i](run);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* One caller, from connecting to releasing, in its own thread. */
static int run_one(struct zc_run *run)
{
    const int rc = run_steps(run);
    run_release(run, rc);
    return rc;
}

int zc_measure(const struct zc_measure_params *params, struct zc_result *result)
{
    struct zc_callers *callers = NULL;
    result->config = params->options;
    result->error = (struct zc_error){.kind = ZC_ERR_NONE};
    result->started_unix_ns = zc_unix_ns();
    if (params->progress)
        atomic_store(&params->progress->total_ns, zc_run_planned_ns(&params->options));

    int rc = zc_callers_create(params, result, &callers);
    if (rc == 0) {
        rc = zc_callers_run(callers, run_one);
        rc = finish_trace(zc_callers_first(callers), rc);
    }
    if (rc == 0)
        result->state = ZC_RUN_DONE;
    else
        result->state = result->error.kind == ZC_ERR_CANCELLED ? ZC_RUN_CANCELLED : ZC_RUN_FAILED;
    result->finished_unix_ns = zc_unix_ns();
    if (callers)
        zc_run_enter(zc_callers_first(callers), ZC_PHASE_END, 0);
    zc_callers_destroy(callers);
    return rc;
}
