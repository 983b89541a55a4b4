/* The probe: what registering, copying, reading and setting up cost on this host, each by itself. In the calling thread (and threads of
 * its own where several register at once); everything is released when it returns. */
#ifndef ZC_PROBE_RUN_H
#define ZC_PROBE_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth.h"
#include "device.h"
#include "error.h"
#include "probe.h"

/* Written by the probe's thread, read by any other without a lock. */
struct zc_probe_progress {
    atomic_uint rows_done, rows;    /* rows 0: not planned yet */
    atomic_int what;                /* enum zc_probe_what of the row that is measured now */
};

struct zc_probe_params {
    const struct zc_device *device;
    const char *host;               /* the peer's name or address */
    uint16_t port;
    bool quick;                     /* what a model of the strategies needs, in about a second; false: everything, a few seconds */
    const struct zc_key *key;       /* pre-shared with the peer; borrowed; NULL: none */
    int cancel_fd;                  /* eventfd(2), readable: stop soon with ZC_ERR_CANCELLED; -1: none */
    const atomic_bool *cancel;      /* the same, looked at between trials and while polling; may be NULL */
    void (*wake)(void *arg);        /* called from the probe's thread after *progress changed; may be NULL */
    void *wake_arg;
    struct zc_probe_progress *progress;     /* may be NULL */
};

/* Fills *probe, which was initialised, in every case, but for what is the caller's: on failure state and error say why, and rows measured before are kept. A row that this
 * host cannot give (no huge pages, RLIMIT_MEMLOCK) says so and fails nothing. *err (may be NULL) is probe->error. 0 or its errno. */
int zc_probe_run(const struct zc_probe_params *params, struct zc_probe *probe, struct zc_error *err);

#endif
