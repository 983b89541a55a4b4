/* The pool of threads: see workers.h. A thread without work polls for a moment, if it may, and sleeps on a futex. */
#include "execution/workers.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "execution/queue.h"

enum {
    SPINS = 2000,               /* tens of microseconds, about what going to sleep and waking up cost */
    REPORT_WAIT_NS = 20000,
};

struct worker {
    alignas(ZC_QUEUE_LINE) struct zc_workers *workers;  /* a line each: they write into it all the time */
    pthread_t thread;
    atomic_uint_least64_t allocations;
    atomic_uint_least64_t user_ns, system_ns;
    atomic_uint reported;       /* the last report asked for that it has given */
};

struct zc_workers {
    struct zc_workers_params params;
    struct zc_queue todo, done;
    alignas(ZC_QUEUE_LINE) atomic_uint epoch;   /* the futex: changes whenever a sleeper should look again */
    atomic_uint sleepers, asked;                /* asked: number of the last report */
    atomic_bool stop;
    uint32_t started;
    struct worker *threads;
};

/* --- sleeping and waking --------------------------------------------------------------------------------------- */

static void futex(atomic_uint *word, int operation, unsigned value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void wake(struct zc_workers *workers, int threads)
{
    atomic_fetch_add(&workers->epoch, 1);
    futex(&workers->epoch, FUTEX_WAKE, (unsigned)threads);
}

static bool has_reason(const struct zc_workers *workers, const struct worker *self)
{
    return zc_queue_any(&workers->todo) || atomic_load(&workers->stop) || atomic_load(&workers->asked) != atomic_load(&self->reported);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* The order is what counts: first say that one sleeps, then look at the epoch, then look for work. Whoever brings work after that sees
 * a sleeper, and changes the epoch that the kernel compares. */
static void sleep_for_work(struct zc_workers *workers, const struct worker *self)
{
    const int spins = atomic_load_explicit(workers->params.spin, memory_order_relaxed) ? SPINS : 0;
    for (int i = 0; i < spins; i++) {
        if (has_reason(workers, self))
            return;
        relax();
    }
    atomic_fetch_add(&workers->sleepers, 1);
    const unsigned epoch = atomic_load(&workers->epoch);
    if (!has_reason(workers, self))
        futex(&workers->epoch, FUTEX_WAIT, epoch);
    atomic_fetch_sub(&workers->sleepers, 1);
}

/* --- a thread -------------------------------------------------------------------------------------------------- */

static void report(struct worker *self, unsigned asked)
{
    uint64_t user_ns, system_ns;
    zc_thread_cpu_ns(&user_ns, &system_ns);
    atomic_store(&self->user_ns, user_ns);
    atomic_store(&self->system_ns, system_ns);
    atomic_store(&self->reported, asked);
}

static void *worker_run(void *arg)
{
    struct worker *const self = arg;
    struct zc_workers *const workers = self->workers;
    const struct zc_workers_params *const params = &workers->params;
    const uint64_t before = params->thread_allocations ? params->thread_allocations() : 0;
    while (!atomic_load(&workers->stop)) {
        uint32_t item;
        const unsigned asked = atomic_load(&workers->asked);
        if (asked != atomic_load(&self->reported))
            report(self, asked);
        if (!zc_queue_pop(&workers->todo, &item)) {
            sleep_for_work(workers, self);
            continue;
        }
        params->work(params->arg, item);
        if (params->thread_allocations)
            atomic_store_explicit(&self->allocations, params->thread_allocations() - before, memory_order_relaxed);
        zc_queue_push(&workers->done, item);
        zc_alarm_ring(params->alarm);
    }
    return NULL;
}

/* --- the owner ------------------------------------------------------------------------------------------------- */

static int start_threads(struct zc_workers *workers, struct zc_error *err)
{
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && workers->started < workers->params.threads) {
        struct worker *const worker = &workers->threads[workers->started];
        worker->workers = workers;
        rc = pthread_create(&worker->thread, NULL, worker_run, worker);
        if (rc == 0) {
            pthread_setname_np(worker->thread, workers->params.name);
            workers->started++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        return 0;
    return zc_error_set(err, ZC_ERR_RESOURCE, -rc, NULL, "cannot start thread %u of %u: %s", workers->started + 1,
                        workers->params.threads, strerror(rc));
}

int zc_workers_create(const struct zc_workers_params *params, struct zc_workers **workers, struct zc_error *err)
{
    struct zc_workers *const made = aligned_alloc(ZC_QUEUE_LINE, sizeof *made);
    const size_t bytes = params->threads * sizeof *made->threads;
    if (!made)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %u threads", params->threads);
    memset(made, 0, sizeof *made);
    made->params = *params;
    made->threads = aligned_alloc(ZC_QUEUE_LINE, bytes);
    if (made->threads)
        memset(made->threads, 0, bytes);
    int rc;
    if (!made->threads || zc_queue_create(&made->todo, params->items) < 0 || zc_queue_create(&made->done, params->items) < 0)
        rc = zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %u threads", params->threads);
    else
        rc = start_threads(made, err);
    if (rc < 0) {
        zc_workers_destroy(made);
        return rc;
    }
    *workers = made;
    return 0;
}

void zc_workers_destroy(struct zc_workers *workers)
{
    if (!workers)
        return;
    atomic_store(&workers->stop, true);
    wake(workers, INT_MAX);
    for (uint32_t i = 0; i < workers->started; i++)
        pthread_join(workers->threads[i].thread, NULL);
    free(workers->done.cells);
    free(workers->todo.cells);
    free(workers->threads);
    free(workers);
}

void zc_workers_give(struct zc_workers *workers, uint32_t item)
{
    zc_queue_push(&workers->todo, item);
    if (atomic_load(&workers->sleepers) > 0)
        wake(workers, 1);
}

bool zc_workers_take(struct zc_workers *workers, uint32_t *item)
{
    return zc_queue_pop(&workers->done, item);
}

bool zc_workers_any(const struct zc_workers *workers)
{
    return zc_queue_any(&workers->done);
}

uint64_t zc_workers_allocations(const struct zc_workers *workers)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < workers->started; i++)
        sum += atomic_load_explicit(&workers->threads[i].allocations, memory_order_relaxed);
    return sum;
}

void zc_workers_cpu_ns(struct zc_workers *workers, uint64_t *user_ns, uint64_t *system_ns)
{
    const struct timespec moment = {.tv_nsec = REPORT_WAIT_NS};
    const unsigned asked = atomic_fetch_add(&workers->asked, 1) + 1;
    *user_ns = *system_ns = 0;
    wake(workers, INT_MAX);
    for (uint32_t i = 0; i < workers->started; i++) {
        struct worker *const worker = &workers->threads[i];
        while (atomic_load(&worker->reported) != asked)
            nanosleep(&moment, NULL);
        *user_ns += atomic_load(&worker->user_ns);
        *system_ns += atomic_load(&worker->system_ns);
    }
}
