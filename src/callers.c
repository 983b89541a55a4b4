/* Independent callers of one run: see callers.h. */
#include "callers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct caller {
    struct zc_run run;
    struct zc_measure_params params;    /* without progress, but for the first */
    struct zc_result result;            /* not used by the first, whose result is the caller's of zc_measure() */
    struct zc_callers *callers;
    int (*steps)(struct zc_run *run);
    pthread_t thread;
    int rc;
};

struct zc_callers {
    uint32_t count;
    struct caller *list;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t arrived, meetings;
    atomic_bool stop;                   /* one has failed */
    struct caller *failed;              /* the first that did */
};

/* --- set-up ---------------------------------------------------------------------------------------------------- */

/* With more busy threads than cores, waiting threads do not poll: what waits would take the time of what is waited for. */
static bool must_sleep(const struct zc_measure_params *params, uint32_t count)
{
    cpu_set_t set;
    const uint32_t threads = count * zc_run_threads_max(&params->options);
    const bool software = zc_device_info(params->device)->kind == ZC_DEVICE_SOFTWARE;   /* it has a thread that moves the bytes */
    return count > 1 && sched_getaffinity(0, sizeof set, &set) == 0 && threads + software > (uint32_t)CPU_COUNT(&set);
}

static void init_caller(struct zc_callers *callers, uint32_t index, const struct zc_measure_params *params, struct zc_result *result)
{
    struct caller *const caller = &callers->list[index];
    caller->callers = callers;
    caller->params = *params;
    if (must_sleep(params, callers->count))
        caller->params.options.wait = ZC_WAIT_EVENT;
    if (index > 0) {
        zc_result_init(&caller->result);
        caller->params.progress = NULL;
        caller->params.wake = NULL;
        caller->params.reuse = NULL;
    }
    caller->run = (struct zc_run){
        .params = &caller->params, .result = index > 0 ? &caller->result : result, .callers = callers,
        .strategy = &zc_strategies[params->options.strategy], .number = index,
    };
}

int zc_callers_create(const struct zc_measure_params *params, struct zc_result *result, struct zc_callers **callers)
{
    const uint32_t count = params->options.threads > 1 ? (uint32_t)params->options.threads : 1;
    struct zc_callers *const made = calloc(1, sizeof *made);
    if (made)
        made->list = calloc(count, sizeof *made->list);
    if (!made || !made->list) {
        free(made);
        return zc_error_set(&result->error, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %" PRIu32 " callers", count);
    }
    made->count = count;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    for (uint32_t i = 0; i < count; i++)
        init_caller(made, i, params, result);
    *callers = made;
    return 0;
}

void zc_callers_destroy(struct zc_callers *callers)
{
    if (!callers)
        return;
    for (uint32_t i = 0; i < callers->count; i++) {
        zc_histogram_destroy(callers->list[i].run.available);
        zc_histogram_destroy(callers->list[i].run.reclaimed);
        if (i > 0)
            zc_result_destroy(&callers->list[i].result);
    }
    pthread_cond_destroy(&callers->changed);
    pthread_mutex_destroy(&callers->lock);
    free(callers->list);
    free(callers);
}

struct zc_run *zc_callers_first(struct zc_callers *callers)
{
    return &callers->list[0].run;
}

uint32_t zc_callers_count(const struct zc_callers *callers)
{
    return callers->count;
}

/* --- running together ------------------------------------------------------------------------------------------ */

int zc_callers_meet(struct zc_callers *callers)
{
    if (callers->count == 1)
        return 0;
    pthread_mutex_lock(&callers->lock);
    const uint32_t meeting = callers->meetings;
    if (++callers->arrived == callers->count) {
        callers->arrived = 0;
        callers->meetings++;
        pthread_cond_broadcast(&callers->changed);
    }
    while (callers->meetings == meeting && !atomic_load(&callers->stop))
        pthread_cond_wait(&callers->changed, &callers->lock);
    pthread_mutex_unlock(&callers->lock);
    return atomic_load(&callers->stop) ? -ECANCELED : 0;
}

static void stop_all(struct caller *caller)
{
    struct zc_callers *const callers = caller->callers;
    pthread_mutex_lock(&callers->lock);
    if (!callers->failed)
        callers->failed = caller;
    atomic_store(&callers->stop, true);
    pthread_cond_broadcast(&callers->changed);
    pthread_mutex_unlock(&callers->lock);
}

static void *caller_run(void *arg)
{
    struct caller *const caller = arg;
    caller->run.stop = &caller->callers->stop;
    caller->rc = caller->steps(&caller->run);
    if (caller->rc < 0)
        stop_all(caller);
    return NULL;
}

static uint32_t start_others(struct zc_callers *callers)
{
    uint32_t started = 1;
    for (; started < callers->count; started++) {
        struct caller *const caller = &callers->list[started];
        caller->rc = -pthread_create(&caller->thread, NULL, caller_run, caller);
        if (caller->rc < 0) {
            zc_error_set(&caller->result.error, ZC_ERR_RESOURCE, caller->rc, "threads", "cannot start caller %" PRIu32 " of %" PRIu32
                         ": %s", started + 1, callers->count, strerror(-caller->rc));
            stop_all(caller);
            break;
        }
        pthread_setname_np(caller->thread, "zc-caller");
    }
    return started;
}

/* --- merging --------------------------------------------------------------------------------------------------- */

static void add(uint64_t *sum, uint64_t value)
{
    *sum = *sum == ZC_UNMEASURED || value == ZC_UNMEASURED ? ZC_UNMEASURED : *sum + value;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void merge_terms(struct zc_terms *into, const struct zc_terms *from)
{
    add(&into->inflight, from->inflight);
    add(&into->footprint_bytes, from->footprint_bytes);
    add(&into->buffers, from->buffers);
    add(&into->huge_page_bytes, from->huge_page_bytes);
    add(&into->staging_bytes, from->staging_bytes);
    add(&into->staging_huge_page_bytes, from->staging_huge_page_bytes);
    add(&into->staging_slots, from->staging_slots);
    add(&into->memory_max_bytes, from->memory_max_bytes);
    into->qps += from->qps;
    into->threads += from->threads;
}

/* The windows opened together, to some microseconds. */
static void merge_throughput(struct zc_throughput *into, const struct zc_throughput *from)
{
    into->measured &= from->measured;
    into->bytes += from->bytes;
    into->requests += from->requests;
    into->duration_ns = larger(into->duration_ns, from->duration_ns);
    for (size_t i = 0; into->series_bytes && from->series_bytes && i < from->series_length; i++)
        into->series_bytes[i] += from->series_bytes[i];
    into->series_length = larger(into->series_length, from->series_length);
}

/* The device's CPU time is everybody's already: the first has measured it while all were at work. */
static void merge_cost(struct zc_cost *into, const struct zc_cost *from)
{
    into->measured &= from->measured;
    into->bytes += from->bytes;
    into->requests += from->requests;
    into->duration_ns = larger(into->duration_ns, from->duration_ns);
    into->cpu_user_ns += from->cpu_user_ns;
    into->cpu_system_ns += from->cpu_system_ns;
    add(&into->registrations, from->registrations);
    add(&into->allocations, from->allocations);
    add(&into->registering_allocations, from->registering_allocations);
    add(&into->cache_hits, from->cache_hits);
    add(&into->cache_misses, from->cache_misses);
    add(&into->cache_evictions, from->cache_evictions);
}

static double mean(double a, uint64_t a_count, double b, uint64_t b_count)
{
    return (a * (double)a_count + b * (double)b_count) / (double)(a_count + b_count);
}

static void merge_phases(struct zc_phases *into, const struct zc_phases *from)
{
    const uint64_t a = into->requests, b = from->requests;
    if (a == 0 || b == 0)
        return;
    into->requests = a + b;
    into->register_ns = mean(into->register_ns, a, from->register_ns, b);
    into->post_ns = mean(into->post_ns, a, from->post_ns, b);
    into->wait_ns = mean(into->wait_ns, a, from->wait_ns, b);
    into->copy_ns = mean(into->copy_ns, a, from->copy_ns, b);
    into->deregister_ns = mean(into->deregister_ns, a, from->deregister_ns, b);
    into->discard_ns = mean(into->discard_ns, a, from->discard_ns, b);
    into->consume_ns = mean(into->consume_ns, a, from->consume_ns, b);
}

static void merge_validation(struct zc_validation *into, const struct zc_validation *from)
{
    struct zc_validation merged = from->failed && !into->failed ? *from : *into;
    merged.requests = into->requests + from->requests;
    merged.bytes = into->bytes + from->bytes;
    *into = merged;
}

void zc_callers_merge(struct zc_result *into, const struct zc_result *from)
{
    merge_terms(&into->terms, &from->terms);
    merge_throughput(&into->throughput, &from->throughput);
    merge_cost(&into->cost, &from->cost);
    merge_phases(&into->phases, &from->phases);
    merge_validation(&into->validation, &from->validation);
}

static void merge_latency(struct zc_run *into, const struct zc_run *from)
{
    if (!into->available || !from->available || into->result->available.count == 0)
        return;
    zc_histogram_add(into->available, from->available);
    zc_histogram_add(into->reclaimed, from->reclaimed);
    zc_histogram_summarise(into->available, &into->result->available);
    zc_histogram_summarise(into->reclaimed, &into->result->reclaimed);
}

int zc_callers_run(struct zc_callers *callers, int (*steps)(struct zc_run *run))
{
    for (uint32_t i = 0; i < callers->count; i++)
        callers->list[i].steps = steps;
    const uint32_t started = start_others(callers);
    caller_run(&callers->list[0]);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(callers->list[i].thread, NULL);
    struct zc_run *const first = &callers->list[0].run;
    for (uint32_t i = 1; i < started; i++) {
        merge_latency(first, &callers->list[i].run);
        zc_callers_merge(first->result, &callers->list[i].result);
    }
    if (!callers->failed)
        return 0;
    first->result->error = callers->failed->run.result->error;
    return callers->failed->rc;
}
