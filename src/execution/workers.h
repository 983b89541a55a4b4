/* A pool of threads that carry out the long stages of chunks: the owner gives, whichever thread is free works, the owner takes back.
 * All memory is there from the start; while something is to be done neither side makes a system call or takes a lock. */
#ifndef ZC_WORKERS_H
#define ZC_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "execution/alarm.h"

struct zc_workers;

struct zc_workers_params {
    const char *name;                       /* of the threads, at most 15 bytes */
    uint32_t threads;                       /* 1.. */
    uint32_t items;                         /* that can be under way at once */
    void (*work)(void *arg, uint32_t item); /* called by the pool's threads, several at a time */
    void *arg;
    struct zc_alarm *alarm;                 /* rung after each item; borrowed */
    const atomic_bool *spin;                /* may a thread poll for a moment before it sleeps? Borrowed, may change */
    uint64_t (*thread_allocations)(void);   /* NULL: not counted */
};

/* Starts the threads, which get no signals. ZC_ERR_RESOURCE. */
int zc_workers_create(const struct zc_workers_params *params, struct zc_workers **workers, struct zc_error *err);
/* Joins the threads after what each has in hand; what is still waiting is not done. NULL is allowed. */
void zc_workers_destroy(struct zc_workers *workers);

/* The owner's. */
void zc_workers_give(struct zc_workers *workers, uint32_t item);
bool zc_workers_take(struct zc_workers *workers, uint32_t *item);   /* false: nothing has been done yet */
bool zc_workers_any(const struct zc_workers *workers);              /* would take give something? */

/* Allocator calls of the pool's threads up to the last item that was taken back. */
uint64_t zc_workers_allocations(const struct zc_workers *workers);
/* CPU time of the pool's threads, which they are woken up to tell; waits for what they have in hand. */
void zc_workers_cpu_ns(struct zc_workers *workers, uint64_t *user_ns, uint64_t *system_ns);

#endif
