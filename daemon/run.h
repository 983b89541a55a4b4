/* Runs: a queue, one run at a time (two that share a NIC measure each other), a thread a run, and those who wait for them. What a
 * run measures is not known here: that is zc_measure(). Everything belongs to the main thread. */
#ifndef ZC_DAEMON_RUN_H
#define ZC_DAEMON_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "loop.h"
#include "measure.h"
#include "options.h"
#include "result.h"
#include "store.h"
#include "strategies.h"

enum {
    RUNS_QUEUED_MAX = 256,      /* more are refused as busy */
    RUNS_REMEMBERED = 16,       /* ended runs whose document is kept in memory, stored or not */
};

struct runs;

/* Where "self" is; filled when a run starts. */
struct run_self {
    char address[ZC_NAME_MAX];  /* "": this daemon has no address that a peer could use */
    uint16_t port;
};

struct runs_params {
    struct loop *loop;
    struct store *store;                    /* outlives the runs */
    const struct zc_device *device;
    const struct zc_key *key;               /* pre-shared with the peers, NULL: none */
    struct run_self self;
    uint64_t (*thread_allocations)(void);   /* see struct zc_measure_params */
    int (*measure)(const struct zc_measure_params *params, struct zc_result *result);   /* zc_measure(), or a test's */
    void (*device_lost)(void *arg);         /* a run has found `device` removed; NULL: nobody cares */
    void *device_arg;
};

/* What is known of a run that has not ended. */
struct run_info {
    char id[ZC_ID_MAX];
    const char *strategy;       /* or the kind of a job */
    const char *peer;           /* valid until the next call here */
    uint64_t size_bytes;        /* 0: a job has several, or none */
    bool active;                /* else queued */
    unsigned queue_position;    /* 0 when active, 1 for the next */
    const char *phase;
    double elapsed_s, total_s;
    double gib_per_s;           /* NAN: unknown */
    char detail[96];            /* of a job, in words; "": none */
};

/* How a run ended. Borrowed. */
struct run_outcome {
    json_t *document;           /* NULL: there was no memory for it */
    const char *path;           /* NULL: not stored */
    const char *store_error;    /* NULL: stored */
};

/* Somebody who waits; the memory is the waiter's own. ended() is called once, after which the waiter is forgotten. `outcome` is NULL
 * if the daemon gives up before the run has ended. */
struct run_waiter {
    void (*ended)(struct run_waiter *waiter, const struct run_outcome *outcome);
    void (*progressed)(struct run_waiter *waiter, const struct run_info *info);     /* NULL: does not care; called first from
                                                                                       within runs_wait() */
    struct run_waiter *next, **link;        /* run.c's own */
};

/* What a job works with; valid until work() returns. */
struct run_job_terms {
    const char *id;
    uint64_t owner_uid;
    const struct zc_device *device;
    const char *host;           /* resolved as for a run */
    uint16_t port;
    const struct zc_key *key;
    int cancel_fd;
    const atomic_bool *cancel;
    uint64_t (*thread_allocations)(void);
    void (*wake)(void *arg);    /* after progress */
    void *wake_arg;
};

/* Something else that takes its turn in the queue: a sweep, a probe. Embedded in the job's own struct. */
struct run_job {
    const char *kind;           /* "sweep": part of its id, and what lists call it */
    const char *peer, *device;  /* options; valid as long as the job */
    /* In a thread of its own: the document of what it came to, a new reference (NULL: no memory), and how it ended. */
    json_t *(*work)(struct run_job *job, const struct run_job_terms *terms, enum zc_run_state *state, struct zc_error *err);
    void (*tell)(const struct run_job *job, struct run_info *info);     /* fill in phase, times, detail; the main thread, meanwhile */
    void (*destroy)(struct run_job *job);
};

struct runs_stats {
    uint64_t active, queued;                /* now */
    uint64_t done, failed, cancelled;       /* since the start */
    uint64_t not_stored;                    /* ended, but the result could not be written */
    struct runs_strategy {
        uint64_t done, failed, cancelled;
        double gib_per_s;                   /* of the last that was done and measured it; NAN: none yet */
    } strategies[ZC_STRATEGY_COUNT];        /* by enum zc_strategy */
    uint64_t errors[ZC_ERR_INTERNAL + 1];   /* runs that failed, by enum zc_error_kind */
};

int runs_create(const struct runs_params *params, struct runs **runs, struct zc_error *err);
/* Only without running threads: see runs_stop() and runs_alive(). Waiters that are left get ended(NULL). NULL is allowed. */
void runs_destroy(struct runs *runs);

/* Queue a run of the user `owner_uid`. ZC_ERR_BUSY, ZC_ERR_INVALID (a peer that cannot be). `id` is written on success. */
int runs_start(struct runs *runs, const struct zc_run_options *options, uint64_t owner_uid, char id[ZC_ID_MAX], struct zc_error *err);
/* The same for a job, which belongs to the queue from here on, also on failure. */
int runs_start_job(struct runs *runs, struct run_job *job, uint64_t owner_uid, char id[ZC_ID_MAX], struct zc_error *err);
/* Who started it; false: unknown here. */
bool runs_owner(struct runs *runs, const char *id, uint64_t *owner_uid);
/* The run ends soon, as cancelled. ZC_ERR_NOT_FOUND also if it has ended. */
int runs_cancel(struct runs *runs, const char *id, struct zc_error *err);

/* Wait for a run's end: true, and waiter->ended() will be called (at once, from within, if it has ended and is remembered); false:
 * unknown here. */
bool runs_wait(struct runs *runs, const char *id, struct run_waiter *waiter);
void runs_forget(struct run_waiter *waiter);

/* Visit what is active and queued, in that order. */
void runs_list(struct runs *runs, void (*visit)(void *arg, const struct run_info *info), void *arg);
void runs_stats(const struct runs *runs, struct runs_stats *stats);

/* The device was taken away: what starts from here on fails, saying so, until it is back. Active runs may use it until runs_alive() is
 * false. `self` may be another than before. */
void runs_device_gone(struct runs *runs, const char *name);
int runs_gone_error(const char *name, struct zc_error *err);    /* what they fail with */
void runs_device_back(struct runs *runs, const struct zc_device *device, const struct run_self *self);

/* Take no more runs, cancel all; `stopped` is called (perhaps from within) when the last one has ended. */
void runs_stop(struct runs *runs, void (*stopped)(void *arg), void *arg);
bool runs_alive(const struct runs *runs);   /* threads are running */

#endif
