/* Measures the cells of a sweep within a budget of time: once each, then again in random order, and in the end where strategies are
 * close. Everything but the plan and the figures is here; those are proto/sweep.h. */
#ifndef ZC_SWEEP_ENGINE_H
#define ZC_SWEEP_ENGINE_H

#include <stdatomic.h>
#include <stdint.h>

#include "device.h"
#include "measure.h"
#include "probe_run.h"
#include "sweep.h"

/* Written by the sweep's thread, read by any other without a lock. */
struct zc_sweep_progress {
    atomic_uint_least32_t cells_done, cells_total;  /* done: has the trials that were asked for */
    atomic_uint_least32_t strategy;                 /* of what is measured now, enum zc_strategy_id */
    atomic_uint_least64_t size_bytes;
    atomic_uint_least64_t elapsed_ns, budget_ns;
    atomic_uint_least64_t best_bytes_per_s;         /* of any cell so far; 0: none */
};

struct zc_sweep_params {
    const struct zc_device *device;
    const char *host;                       /* as in struct zc_measure_params, like what follows */
    uint16_t port;
    const struct zc_key *key;
    int cancel_fd;
    const atomic_bool *cancel;
    uint64_t (*thread_allocations)(void);
    void (*wake)(void *arg);                /* after each trial */
    void *wake_arg;
    struct zc_sweep_progress *progress;     /* may be NULL */
    int (*measure)(const struct zc_measure_params *params, struct zc_result *result);   /* zc_measure(), or a test's */
    int (*probe)(const struct zc_probe_params *params, struct zc_probe *probe, struct zc_error *err);   /* zc_probe_run(), NULL: no model */
};

/* The cells of a planned sweep (zc_sweep_plan()), or of one that was interrupted: trials that are there stay. Fills state, error and
 * figures in every case. A cell that cannot be measured carries its own error; what ends the sweep is a peer that is lost, bytes that
 * are wrong, and cancelling. 0 or a negative errno that equals sweep->error.errnum. */
int zc_sweep_run(const struct zc_sweep_params *params, struct zc_sweep *sweep);

#endif
