/* The windows of a run. All of them are passes of load.c; they differ in how long, how deep, and what is done with a finished
 * request. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "callers.h"
#include "clock.h"
#include "measure_private.h"
#include "pattern.h"

#define SECOND_NS UINT64_C(1000000000)

static uint64_t to_ns(double seconds)
{
    return (uint64_t)llround(seconds * 1e9);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- how long, and how far ------------------------------------------------------------------------------------- */

/* Every pass but the two windows is as short as its figure allows: the windows are what the user asked for. */
static uint64_t warmup_ns(const struct zc_run_options *options) { return to_ns(options->warmup_s); }
static uint64_t measure_ns(const struct zc_run_options *options) { return to_ns(options->measure_s); }
static uint64_t phases_ns(const struct zc_run_options *options) { return min_u64(measure_ns(options), SECOND_NS / 2); }
static uint64_t cost_ns(const struct zc_run_options *options) { return min_u64(measure_ns(options), SECOND_NS); }
static uint64_t validate_ns(const struct zc_run_options *options) { return max_u64(measure_ns(options), SECOND_NS); }

uint64_t zc_run_planned_ns(const struct zc_run_options *options)
{
    const uint64_t window = warmup_ns(options) + measure_ns(options);
    return (options->skip_latency ? 0 : window) + (options->skip_throughput ? 0 : window) + phases_ns(options) + cost_ns(options);
}

size_t zc_series_length(uint64_t window_ns)
{
    return (size_t)((window_ns + ZC_SERIES_INTERVAL_NS - 1) / ZC_SERIES_INTERVAL_NS);
}

static void publish(struct zc_run *run)
{
    if (run->params->wake)
        run->params->wake(run->params->wake_arg);
}

void zc_run_enter(struct zc_run *run, enum zc_phase phase, uint64_t length_ns)
{
    struct zc_progress *const progress = run->params->progress;
    run->elapsed_before_ns += run->phase_length_ns;
    run->phase_started_ns = run->last_tick_ns = zc_now_ns();
    run->phase_length_ns = length_ns;
    if (!progress)
        return;
    atomic_store(&progress->phase, phase);
    atomic_store(&progress->phase_started_ns, run->phase_started_ns);
    atomic_store(&progress->phase_length_ns, length_ns);
    atomic_store(&progress->elapsed_ns, run->elapsed_before_ns);
    atomic_store(&progress->rate_bytes_per_s, 0);
    publish(run);
}

void zc_run_tick(void *arg, uint64_t now_ns, uint64_t bytes_since_last)
{
    struct zc_run *const run = arg;
    struct zc_progress *const progress = run->params->progress;
    const uint64_t interval = now_ns > run->last_tick_ns ? now_ns - run->last_tick_ns : 1;
    /* A request may have become available just before the phase began that it is counted in. */
    const uint64_t since = now_ns > run->phase_started_ns ? now_ns - run->phase_started_ns : 0;
    const uint64_t in_phase = min_u64(since, run->phase_length_ns);
    run->last_tick_ns = now_ns;
    zc_connection_keep(run->connection, now_ns);
    if (!progress)
        return;
    atomic_store(&progress->elapsed_ns, run->elapsed_before_ns + in_phase);
    atomic_store(&progress->rate_bytes_per_s, (uint64_t)((double)bytes_since_last * zc_callers_count(run->callers) * 1e9 /
                                                       (double)interval));  /* the others do about the same */
    publish(run);
}

/* --- what all passes do ---------------------------------------------------------------------------------------- */

/* Run a pass and turn what ended it into the result's error. */
static int run_pass(struct zc_run *run, struct zc_pass *pass)
{
    struct zc_error *const err = &run->result->error;
    pass->arg = run;
    const int rc = zc_load_run(&run->load, pass);
    if (rc == 0 || err->kind != ZC_ERR_NONE)
        return rc;
    const struct zc_error *const why = zc_pipeline_error(run->pipeline);
    if (why->kind != ZC_ERR_NONE)
        *err = *why;
    else if (rc == -ECANCELED)
        zc_error_set(err, ZC_ERR_CANCELLED, rc, NULL, "cancelled");
    else
        zc_error_set(err, ZC_ERR_RESOURCE, rc, NULL, "the pages of a user buffer cannot be discarded: %s", strerror(-rc));
    return rc;
}

/* What was measured before a cancellation stays; a window that a failure cut short holds the wait for the failure and says nothing. */
static bool keeps(int rc)
{
    return rc == 0 || rc == -ECANCELED;
}

static int check_measured(struct zc_run *run, const struct zc_pass *pass, int rc)
{
    zc_run_trace_ended(run);
    if (rc < 0 || pass->requests > 0)
        return rc;
    return zc_error_set(&run->result->error, ZC_ERR_UNMEASURED, -ENODATA, "measure",
                        "no request of %" PRIu64 " bytes completed within the window of %g s",
                        run->params->options.size_bytes, run->params->options.measure_s);
}

static uint64_t allocations(const struct zc_run *run)
{
    return run->params->thread_allocations ? run->params->thread_allocations() : 0;
}

static void window_opened(struct zc_pass *pass)
{
    struct zc_run *const run = pass->arg;
    zc_run_enter(run, run->window_phase, run->window_ns);
    zc_pipeline_use(run->pipeline, false, &run->opened_use);
    run->opened_allocations = allocations(run);
    zc_run_trace_opened(run, pass->start_ns);
}

/* Registrations and allocator calls of the window that has just ended; the last window's are the ones that stay. */
static void count_calls(struct zc_run *run, const struct zc_pass *pass)
{
    struct zc_cost *const cost = &run->result->cost;
    const struct zc_pipeline_use *const before = &run->opened_use;
    const uint64_t own = allocations(run) - run->opened_allocations;
    struct zc_pipeline_use use;
    if (!pass->open)
        return;
    zc_pipeline_use(run->pipeline, false, &use);
    cost->registrations = use.registrations - before->registrations;
    if (use.caches) {
        cost->cache_hits = use.cache_hits - before->cache_hits;
        cost->cache_misses = use.cache_misses - before->cache_misses;
        cost->cache_evictions = use.cache_evictions - before->cache_evictions;
    }
    if (!run->params->thread_allocations)
        return;
    cost->registering_allocations = use.registering_allocations - before->registering_allocations;
    cost->allocations = own + use.allocations - before->allocations - cost->registering_allocations;
}

/* A warm-up and behind it, without a pause, the window. */
static struct zc_pass begin_window(struct zc_run *run, enum zc_phase phase, uint32_t depth)
{
    const struct zc_run_options *const options = &run->params->options;
    run->window_phase = phase;
    run->window_ns = measure_ns(options);
    zc_run_enter(run, ZC_PHASE_WARMUP, warmup_ns(options));
    return (struct zc_pass){.depth = depth, .warmup_ns = warmup_ns(options), .window_ns = run->window_ns, .opened = window_opened};
}

/* --- validation ------------------------------------------------------------------------------------------------ */

/* What was there before must not be able to pass for what should come. */
static void poison(struct zc_pass *pass, struct zc_request *request)
{
    const struct zc_run *const run = pass->arg;
    const uint64_t seed = zc_connection_remote(run->connection)->pattern_seed;
    uint64_t offset = request->remote_offset;
    for (uint32_t i = 0; i < run->load.layout.pieces; i++) {
        const struct zc_piece piece = zc_layout_piece(&run->load.layout, request, i);
        zc_pattern_poison(piece.address, piece.length_bytes, offset, seed);
        offset += piece.length_bytes;
    }
}

static int wrong_byte(struct zc_run *run, const struct zc_request *request, uint64_t offset, uint8_t found)
{
    struct zc_validation *const validation = &run->result->validation;
    validation->failed = true;
    validation->first_bad_offset = offset;
    validation->expected = zc_pattern_byte(offset, zc_connection_remote(run->connection)->pattern_seed);
    validation->found = found;
    return zc_error_set(&run->result->error, ZC_ERR_VALIDATION, -EBADMSG, NULL,
                        "the byte at offset %" PRIu64 " of the peer's region is 0x%02x and arrived as 0x%02x (request of %" PRIu64
                        " bytes at offset %" PRIu64 ")", validation->first_bad_offset, validation->expected, validation->found,
                        run->load.size_bytes, request->remote_offset);
}

static int compare(struct zc_pass *pass, const struct zc_request *request)
{
    struct zc_run *const run = pass->arg;
    const uint64_t seed = zc_connection_remote(run->connection)->pattern_seed;
    uint64_t offset = request->remote_offset;
    run->result->validation.requests++;
    run->result->validation.bytes += run->load.size_bytes;
    for (uint32_t i = 0; i < run->load.layout.pieces; i++) {
        const struct zc_piece piece = zc_layout_piece(&run->load.layout, request, i);
        size_t bad;
        if (!zc_pattern_check(piece.address, piece.length_bytes, offset, seed, &bad))
            return wrong_byte(run, request, offset + bad, piece.address[bad]);
        offset += piece.length_bytes;
    }
    return 0;
}

/* `first`: one request. `all`: that one, so that no run passes for validated without any, and then at full depth, until every user
 * buffer and every place of the region has been checked once, but no longer than the measured window (at least a second): requests
 * and bytes say how far it came. Offsets rotate here whatever --offset says, because a staging slot that still holds the same bytes
 * would hide a READ that moved nothing. */
int zc_run_validate(struct zc_run *run)
{
    const struct zc_run_options *const options = &run->params->options;
    const enum zc_validate mode = options->skip_validation ? ZC_VALIDATE_NONE : (enum zc_validate)options->validate;
    run->result->validation.mode = mode;
    if (mode == ZC_VALIDATE_NONE)
        return 0;
    struct zc_load *const load = &run->load;
    const struct zc_load asked = *load;
    const uint64_t region = run->result->peer.region_bytes;
    zc_load_rotate(load, region, true);

    struct zc_pass pass = {.depth = 1, .window_ns = UINT64_MAX, .request_limit = 1, .before = poison, .finished = compare};
    zc_run_enter(run, ZC_PHASE_VALIDATE, 0);
    int rc = run_pass(run, &pass);
    if (rc == 0 && mode == ZC_VALIDATE_ALL) {
        pass.depth = (uint32_t)run->result->terms.inflight;
        pass.window_ns = validate_ns(options);
        pass.request_limit = max_u64(load->buffer_count, load->offset_count);
        rc = run_pass(run, &pass);
    }
    *load = asked;
    return rc;
}

/* --- latency --------------------------------------------------------------------------------------------------- */

static void stamp(struct zc_pass *pass, struct zc_request *request)
{
    (void)pass;
    request->submit_ns = zc_now_ns();
}

static int record_latency(struct zc_pass *pass, const struct zc_request *request)
{
    struct zc_run *const run = pass->arg;
    zc_histogram_record(run->available, request->available_ns - request->submit_ns);
    zc_histogram_record(run->reclaimed, request->reclaimed_ns - request->submit_ns);
    return 0;
}

int zc_run_latency(struct zc_run *run)
{
    if (run->params->options.skip_latency)
        return 0;
    struct zc_pass pass = begin_window(run, ZC_PHASE_LATENCY, 1);
    pass.before = stamp;
    pass.finished = record_latency;
    const int rc = run_pass(run, &pass);
    count_calls(run, &pass);
    if (keeps(rc)) {
        zc_histogram_summarise(run->available, &run->result->available);
        zc_histogram_summarise(run->reclaimed, &run->result->reclaimed);
    }
    return check_measured(run, &pass, rc);
}

/* --- throughput ------------------------------------------------------------------------------------------------ */

static void throughput_opened(struct zc_pass *pass)
{
    struct zc_run *const run = pass->arg;
    run->series_index = 0;
    run->series_next_ns = pass->start_ns + ZC_SERIES_INTERVAL_NS;
    window_opened(pass);
}

static int count_bytes(struct zc_pass *pass, const struct zc_request *request)
{
    struct zc_run *const run = pass->arg;
    while (request->available_ns > run->series_next_ns && run->series_index + 1 < run->series_capacity) {
        run->series_index++;
        run->series_next_ns += ZC_SERIES_INTERVAL_NS;
    }
    run->result->throughput.series_bytes[run->series_index] += run->load.size_bytes;
    return 0;
}

int zc_run_throughput(struct zc_run *run)
{
    struct zc_throughput *const throughput = &run->result->throughput;
    if (run->params->options.skip_throughput)
        return 0;
    struct zc_pass pass = begin_window(run, ZC_PHASE_THROUGHPUT, (uint32_t)run->result->terms.inflight);
    pass.opened = throughput_opened;
    pass.finished = count_bytes;
    const int rc = run_pass(run, &pass);
    count_calls(run, &pass);
    if (keeps(rc) && pass.requests > 0) {
        throughput->measured = true;
        throughput->bytes = pass.bytes;
        throughput->requests = pass.requests;
        throughput->duration_ns = pass.end_ns - pass.start_ns;
        throughput->series_length = min_u64(zc_series_length(throughput->duration_ns), run->series_capacity);
    }
    return check_measured(run, &pass, rc);
}

/* --- where the time goes, and what it costs -------------------------------------------------------------------- */

/* Apart from the windows, because every stage of every chunk reads the clock; one request at a time, so that the phases of a request
 * add up to its latency. */
int zc_run_phases(struct zc_run *run)
{
    const struct zc_stages stages = zc_pipeline_stages(run->pipeline);
    struct zc_pass pass = {.depth = 1, .window_ns = phases_ns(&run->params->options)};
    if (run->params->skip_phases)
        return 0;
    zc_run_enter(run, ZC_PHASE_PHASES, pass.window_ns);
    run->load.discard_ns = run->load.consume_ns = 0;
    run->load.time_stages = true;
    zc_pipeline_time_stages(run->pipeline, true);
    const int rc = run_pass(run, &pass);
    double mean[ZC_STAGE_COUNT];
    for (int i = 0; i < ZC_STAGE_COUNT; i++)
        mean[i] = (double)zc_pipeline_stage_ns(run->pipeline, (enum zc_stage)i) / (double)pass.all_requests;
    zc_pipeline_time_stages(run->pipeline, false);
    run->load.time_stages = false;
    if (rc < 0)
        return rc;
    run->result->phases = (struct zc_phases){
        .requests = pass.all_requests,
        .register_ns = stages.registers ? mean[ZC_STAGE_BEFORE] : NAN,
        .post_ns = mean[ZC_STAGE_POST] + (stages.registers ? 0 : mean[ZC_STAGE_BEFORE]),
        .wait_ns = mean[ZC_STAGE_WAIT],
        .copy_ns = stages.copies ? mean[ZC_STAGE_AFTER] : NAN,
        .deregister_ns = stages.registers ? mean[ZC_STAGE_AFTER] : NAN,
        .discard_ns = run->load.discard ? (double)run->load.discard_ns / (double)pass.all_requests : NAN,
        .consume_ns = run->load.consume ? (double)run->load.consume_ns / (double)pass.all_requests : NAN,
    };
    return 0;
}

/* CPU time of the run's own thread and of the strategy's, all together. */
static void cpu_time(struct zc_run *run, uint64_t *user_ns, uint64_t *system_ns)
{
    struct zc_pipeline_use use;
    zc_pipeline_use(run->pipeline, true, &use);
    zc_thread_cpu_ns(user_ns, system_ns);
    *user_ns += use.cpu_user_ns;
    *system_ns += use.cpu_system_ns;
}

/* Always a pass that sleeps for its completions, with --wait event too: one rule for every run. It counts everything from the first
 * submit to the last completion, so bytes and CPU time belong to each other exactly. */
int zc_run_cost(struct zc_run *run)
{
    struct zc_cost *const cost = &run->result->cost;
    struct zc_pass pass = {.depth = (uint32_t)run->result->terms.inflight, .window_ns = cost_ns(&run->params->options)};
    uint64_t user[2], system[2];
    zc_run_enter(run, ZC_PHASE_COST, pass.window_ns);
    zc_pipeline_set_wait(run->pipeline, ZC_WAIT_EVENT);
    const uint64_t begin = zc_now_ns(), device = zc_device_cpu_ns();
    cpu_time(run, &user[0], &system[0]);
    const int rc = run_pass(run, &pass);
    const uint64_t device_end = zc_device_cpu_ns(), end = zc_now_ns();
    zc_pipeline_set_wait(run->pipeline, (enum zc_wait)run->params->options.wait);
    if (!keeps(rc) || pass.all_requests == 0)
        return rc;
    cpu_time(run, &user[1], &system[1]);
    cost->measured = true;
    cost->bytes = pass.all_bytes;
    cost->requests = pass.all_requests;
    cost->duration_ns = end - begin;
    cost->cpu_user_ns = user[1] - user[0];
    cost->cpu_system_ns = system[1] - system[0];
    cost->device_cpu_ns = device == ZC_UNMEASURED ? ZC_UNMEASURED : device_end - device;
    return rc;
}
