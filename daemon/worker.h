/* One thread for what may wait for a disk, so that the loop does not: jobs are done one after the other, and each comes back to the
 * loop. Everything here but struct worker_job's work() belongs to the main thread. */
#ifndef ZC_DAEMON_WORKER_H
#define ZC_DAEMON_WORKER_H

#include <stdbool.h>

#include "error.h"
#include "loop.h"

struct worker;

/* The memory is the submitter's, until done() is called - exactly once, in the loop. */
struct worker_job {
    void (*work)(struct worker_job *job);   /* in the worker's thread */
    void (*done)(struct worker_job *job, bool worked);  /* false: the worker was destroyed before */
    struct worker_job *next;                /* worker.c's own */
};

int worker_create(struct loop *loop, struct worker **worker, struct zc_error *err);
/* Waits for the job that is being worked on; the others are given back undone. NULL is allowed. */
void worker_destroy(struct worker *worker);
void worker_submit(struct worker *worker, struct worker_job *job);

#endif
