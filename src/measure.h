/* A run from beginning to end in the calling thread: connect, set up, validate, warm up, measure latency, throughput, phases and
 * cost, tear down. This is the entry of libzcrdma for whoever wants a result. */
#ifndef ZC_MEASURE_H
#define ZC_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth.h"
#include "device.h"
#include "error.h"
#include "options.h"
#include "result.h"
#include "reuse.h"

/* Written by the run's thread, read by any other without a lock. */
struct zc_progress {
    atomic_int phase;                       /* enum zc_phase */
    atomic_uint_least64_t phase_started_ns; /* CLOCK_MONOTONIC */
    atomic_uint_least64_t phase_length_ns;  /* planned; 0 unknown */
    atomic_uint_least64_t elapsed_ns, total_ns;     /* of all measured phases together */
    atomic_uint_least64_t rate_bytes_per_s; /* over the last 100 ms or more */
};

struct zc_measure_params {
    const struct zc_device *device;
    struct zc_run_options options;          /* checked by zc_run_options_check() */
    const char *host;                       /* where to connect; options.peer resolved by the caller ("self" -> own address) */
    uint16_t port;
    const struct zc_key *key;               /* pre-shared with the peer; borrowed; NULL: none */
    int cancel_fd;                          /* eventfd(2), readable: stop soon with ZC_ERR_CANCELLED */
    const atomic_bool *cancel;              /* the same, for polling loops; set before cancel_fd is written */
    uint64_t (*thread_allocations)(void);   /* allocator calls of the calling thread so far; NULL: not counted */
    const char *trace_path;                 /* where options.logging puts its file; NULL: nowhere */
    void (*wake)(void *arg);                /* called about every 100 ms from the run's thread after *progress changed; may be NULL */
    void *wake_arg;
    struct zc_progress *progress;           /* may be NULL */
    struct zc_reuse *reuse;                 /* what runs before left (reuse.h), and where this one leaves its own; may be NULL */
    bool skip_phases;                       /* no pass that times the stages */
};

/* Fills *result in every case: on failure its state and error say why, and what was measured before is kept. The id is left alone.
 * 0, or a negative errno that equals result->error.errnum. */
int zc_measure(const struct zc_measure_params *params, struct zc_result *result);

#endif
