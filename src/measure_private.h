/* What measure.c (set-up, tear-down, order) and passes.c (the windows) share: one run. */
#ifndef ZC_MEASURE_PRIVATE_H
#define ZC_MEASURE_PRIVATE_H

#include "completion.h"
#include "connection.h"
#include "histogram.h"
#include "keeper.h"
#include "load.h"
#include "measure.h"
#include "memory.h"
#include "pipeline.h"
#include "placement.h"
#include "trace.h"

struct zc_callers;

/* One caller of a run; mostly there is only one. */
struct zc_run {
    const struct zc_measure_params *params;
    struct zc_result *result;
    const struct zc_strategy *strategy;
    struct zc_callers *callers;         /* this one and those beside it (callers.h) */
    uint32_t number;                    /* of this one, from 0 */
    const atomic_bool *stop;            /* one of them has failed */

    struct zc_placement *placement;
    bool threads_bound;
    int mr_access;                      /* of every MR for data, besides IBV_ACCESS_LOCAL_WRITE */
    struct zc_completion *completion;
    struct zc_connection *connection;
    struct zc_keeper *keeper;           /* of the connection; NULL: the peer wants no ALIVE */
    uint32_t send_slots;                /* a QP */
    struct zc_buffer user;              /* all user buffers */
    struct zc_pipeline *pipeline;
    struct zc_load load;
    struct zc_piece *pieces;            /* of all requests; NULL: they have one each */
    struct zc_trace *trace;             /* of all callers, made and kept by the first; NULL: no logging */
    uint64_t trace_start_ns;
    struct zc_histogram *available, *reclaimed;
    size_t series_capacity;             /* of result->throughput.series_bytes */
    size_t series_index;
    uint64_t series_next_ns;            /* where the interval series_index ends */

    enum zc_phase window_phase;         /* what begins when the warm-up ends */
    uint64_t window_ns;
    uint64_t phase_started_ns, phase_length_ns, elapsed_before_ns, last_tick_ns;
    struct zc_pipeline_use opened_use;      /* when the window opened, */
    uint64_t opened_allocations;            /* and of the run's own thread */
};

/* terms.c. Steps of the set-up, each a negative errno with result->error filled on failure. */
int zc_run_place(struct zc_run *run);
int zc_run_relax(struct zc_run *run);
int zc_run_create_buffers(struct zc_run *run);      /* once terms.footprint_bytes is known */
/* Threads of one caller at most: its own, and those that its strategy starts. */
uint32_t zc_run_threads_max(const struct zc_run_options *options);
/* Distance of two user buffers. Fresh ones are whole pages of their kind, because only whole ones are discarded. */
uint64_t zc_run_buffer_stride(const struct zc_run_options *options);
/* The trace: the first caller makes its rings, for the threads of all of them, in a step of its own before any pipeline exists;
 * recording from the opening of the last window to its end; the file once the pipelines are gone. */
int zc_run_create_trace(struct zc_run *run);
void zc_run_trace_opened(struct zc_run *run, uint64_t start_ns);
void zc_run_trace_ended(struct zc_run *run);
int zc_run_write_trace(struct zc_run *run, struct zc_error *err);
/* What of it the load does: the pieces of a buffer, fresh ones, consuming. */
int zc_run_load_terms(struct zc_run *run);

/* The measuring steps, each a negative errno with result->error filled on failure. A step that the options skip does nothing. */
int zc_run_validate(struct zc_run *run);
int zc_run_latency(struct zc_run *run);
int zc_run_throughput(struct zc_run *run);
int zc_run_phases(struct zc_run *run);
int zc_run_cost(struct zc_run *run);
/* All of their planned times together, for the progress. */
uint64_t zc_run_planned_ns(const struct zc_run_options *options);

/* Publish a new phase that is planned to take length_ns (0: unknown). */
void zc_run_enter(struct zc_run *run, enum zc_phase phase, uint64_t length_ns);
/* For zc_load.tick. arg: struct zc_run. */
void zc_run_tick(void *arg, uint64_t now_ns, uint64_t bytes_since_last);

/* Series of a window of `window_ns`: how many intervals, the last of which may be shorter. */
size_t zc_series_length(uint64_t window_ns);

#endif
