/* What the parts of the daemon share: one struct, filled by main.c in the order of its members and emptied in reverse. */
#ifndef ZC_DAEMON_DAEMON_H
#define ZC_DAEMON_DAEMON_H

#include <stdint.h>

#include "config.h"
#include "control.h"
#include "device.h"
#include "loop.h"
#include "region.h"
#include "responder.h"
#include "run.h"
#include "store.h"
#include "worker.h"

struct doctor;
struct serving;
struct service;
struct metrics;
struct presence;

struct daemon {
    struct config config;
    uint64_t started_ns;            /* CLOCK_MONOTONIC */
    uint64_t (*thread_allocations)(void);   /* alloc_count.h */
    struct zc_device *device;       /* NULL: it was taken away, and is not back (presence.h) */
    char device_name[ZC_NAME_MAX];
    struct loop *loop;
    struct control *control;
    struct store *store;
    struct worker *worker;          /* for what may wait for the disk */
    struct zc_key *key;             /* NULL: none */
    struct serving *serving;        /* region and responder in the loop, and what they have counted */
    struct zc_region *region;
    struct zc_responder *responder; /* NULL while there is no device */
    struct runs *runs;
    struct doctor *doctor;          /* looks for what would spoil a run */
    struct presence *presence;      /* looks whether the device is there */
    struct metrics *metrics;        /* the counters' file */
    struct service *service;        /* signals, systemd, stopping */
};

#endif
