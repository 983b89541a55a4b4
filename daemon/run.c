/* Queue, threads and waiters of the runs. See run.h. A run's thread measures, encodes and stores - whatever may block - and then sets
 * `ended`; from there on the run belongs to the main thread alone. */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "peer.h"
#include "result_json.h"

static const double TICK_S = 0.2;
static const uint64_t PROGRESS_INTERVAL_NS = 100 * 1000000;

enum run_stage {
    RUN_QUEUED,         /* no thread */
    RUN_ACTIVE,         /* its thread measures */
    RUN_CANCELLING,     /* cancelled while queued: its thread only stores */
    RUN_ENDED,          /* remembered */
};

struct run {
    struct runs *runs;
    struct run *next;           /* in the order of their start */
    char id[ZC_ID_MAX];
    enum run_stage stage;
    struct zc_run_options options;      /* of a run; strategy -1: see job */
    struct run_job *job;        /* NULL: a run */
    uint64_t owner_uid;
    char host[ZC_PEER_MAX];
    uint16_t port;
    pthread_t thread;
    const struct zc_device *device;     /* the daemon's, when it became active */
    char gone[ZC_NAME_MAX];     /* or that it was taken away: its name */
    bool own_device;            /* it has opened another one; written by the thread before `ended` */
    int cancel_fd;
    atomic_bool cancel;
    atomic_bool ended;
    struct zc_progress progress;
    struct run_waiter *waiters;
    uint64_t told_ns;           /* when waiters heard last, and of what */
    int told_phase;
    /* written by the thread before `ended` */
    enum zc_run_state state;
    struct zc_error error;
    double gib_per_s;           /* NAN: not measured */
    json_t *document;
    char path[PATH_MAX];        /* "": not stored */
    struct zc_error store_error;
};

struct runs {
    struct runs_params params;
    struct run *first;
    struct loop_wake *wake;
    struct loop_timer *tick;    /* runs while a run has not ended */
    struct runs_stats totals;
    char gone[ZC_NAME_MAX];     /* the name of a device that was taken away; "": it is there */
    time_t last_second;         /* of ids */
    unsigned last_tail;
    bool stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static void advance(struct runs *runs);

/* ---- ids */

/* TIME-NAME-TAIL, the strategy's name or the job's kind; tails of one second ascend, so that ids sort in the order of the runs. */
static void make_id(struct runs *runs, const char *name, char id[ZC_ID_MAX])
{
    enum { TIME = 16, TAIL = 5, NAME = ZC_ID_MAX - 1 - TIME - 1 - TAIL };
    do {
        uint16_t random;
        char stamp[TIME + 1];
        struct tm tm;
        time_t now = time(NULL);
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            random = (uint16_t)zc_now_ns();
        unsigned tail = now == runs->last_second ? runs->last_tail + 1 + random % 16 : random % 0x8000u;
        runs->last_second = now;
        runs->last_tail = tail & 0xffff;
        gmtime_r(&now, &tm);
        strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
        snprintf(id, ZC_ID_MAX, "%s-%.*s-%04x", stamp, NAME, name, runs->last_tail);
    } while (store_exists(runs->params.store, id));
}

static const char *name_of(const struct run *run)
{
    return run->job ? run->job->kind : zc_strategy_names[run->options.strategy];
}

static struct run *find(struct runs *runs, const char *id)
{
    struct run *run = runs->first;
    while (run && strcmp(run->id, id) != 0)
        run = run->next;
    return run;
}

/* ---- the run's thread */

static void on_progress(void *arg)
{
    struct run *run = arg;
    loop_wake_send(run->runs->wake);
}

/* The result of a run that ends before it is measured, with result->error filled. */
static void not_measured(struct run *run, struct zc_result *result)
{
    result->state = result->error.kind == ZC_ERR_CANCELLED ? ZC_RUN_CANCELLED : ZC_RUN_FAILED;
    result->config = run->options;
    result->validation.mode = run->options.validate;
    snprintf(result->peer.host, sizeof result->peer.host, "%s", run->host);
    result->peer.port = run->port;
}

int runs_gone_error(const char *name, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_DEVICE, -ENODEV, "device", "the RDMA device %s was removed and is not back", name);
}

/* A device that a run names and that is not the daemon's is opened for this run alone. NULL in *own: there is none to close. */
static int open_device(struct run *run, const struct zc_device **device, struct zc_device **own, struct zc_error *err)
{
    const char *name = run->options.device;
    const bool automatic = strcmp(name, "auto") == 0;
    *device = run->device;
    *own = NULL;
    if (*run->gone && (automatic || strcmp(name, run->gone) == 0))
        return runs_gone_error(run->gone, err);
    if (automatic || (*device && strcmp(name, zc_device_info(*device)->name) == 0))
        return 0;
    const int failed = zc_device_open(name, own, err);
    run->own_device = true;
    *device = *own;
    return failed;
}

static void measure(struct run *run, struct zc_result *result)
{
    const struct runs_params *runs = &run->runs->params;
    struct zc_measure_params params = {
        .options = run->options, .host = run->host, .port = run->port, .key = runs->key, .cancel_fd = run->cancel_fd,
        .cancel = &run->cancel, .thread_allocations = runs->thread_allocations, .wake = on_progress, .wake_arg = run,
        .progress = &run->progress,
    };
    struct zc_device *own = NULL;
    char trace_path[PATH_MAX];
    if ((run->options.logging && store_trace_path(runs->store, run->id, trace_path, &result->error) != 0)
        || open_device(run, &params.device, &own, &result->error) != 0) {
        not_measured(run, result);
        return;
    }
    params.trace_path = run->options.logging ? trace_path : NULL;
    runs->measure(&params, result);
    zc_device_close(own);
}

static void measure_and_encode(struct run *run)
{
    struct zc_result result;
    zc_result_init(&result);
    if (run->stage != RUN_CANCELLING) {
        measure(run, &result);
    } else {
        zc_error_set(&result.error, ZC_ERR_CANCELLED, -ECANCELED, NULL, "cancelled in the queue");
        not_measured(run, &result);
    }
    memcpy(result.id, run->id, sizeof run->id);
    result.owner_uid = run->owner_uid;
    run->state = result.state;
    run->error = result.error;
    run->gib_per_s = result.throughput.measured ? (double)result.throughput.bytes / 0x1p30 / ((double)result.throughput.duration_ns / 1e9)
                                                : NAN;
    run->document = zc_result_to_json(&result);
    zc_result_destroy(&result);
}

static void work(struct run *run)
{
    struct run_job *job = run->job;
    struct run_job_terms terms = {
        .id = run->id, .owner_uid = run->owner_uid, .host = run->host, .port = run->port, .key = run->runs->params.key,
        .cancel_fd = run->cancel_fd, .cancel = &run->cancel, .thread_allocations = run->runs->params.thread_allocations, .wake = on_progress, .wake_arg = run,
    };
    struct zc_device *own = NULL;
    run->state = ZC_RUN_FAILED;
    if (open_device(run, &terms.device, &own, &run->error) != 0)
        terms.device = NULL;    /* the job says so in its document */
    run->document = job->work(job, &terms, &run->state, &run->error);
    zc_device_close(own);
}

static void *run_thread(void *arg)
{
    struct run *run = arg;
    if (run->job)
        work(run);
    else
        measure_and_encode(run);
    if (!run->document)
        zc_error_set(&run->store_error, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for the result document");
    else if (store_write(run->runs->params.store, run->id, run->document, run->path, &run->store_error) != 0)
        run->path[0] = 0;
    atomic_store(&run->ended, true);
    loop_wake_send(run->runs->wake);
    return NULL;
}

/* Signals are the main thread's; threads that the run starts inherit the mask. */
static int start_thread(struct run *run)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&run->thread, NULL, run_thread, run);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_setname_np(run->thread, "zc-run");
    return -failed;
}

/* ---- telling */

static void fill_info(const struct run *run, unsigned queue_position, struct run_info *info)
{
    const struct zc_progress *progress = &run->progress;
    uint64_t rate = atomic_load(&progress->rate_bytes_per_s);
    int phase = run->stage == RUN_ACTIVE ? atomic_load(&progress->phase) : ZC_PHASE_QUEUED;
    *info = (struct run_info){
        .strategy = name_of(run), .peer = run->options.peer, .size_bytes = run->options.size_bytes,
        .active = run->stage == RUN_ACTIVE, .queue_position = queue_position, .phase = zc_phase_names[phase],
        .elapsed_s = (double)atomic_load(&progress->elapsed_ns) / 1e9, .total_s = (double)atomic_load(&progress->total_ns) / 1e9,
        .gib_per_s = rate ? (double)rate / 0x1p30 : NAN,
    };
    memcpy(info->id, run->id, sizeof info->id);
    if (run->job && run->stage == RUN_ACTIVE)
        run->job->tell(run->job, info);
}

void runs_list(struct runs *runs, void (*visit)(void *arg, const struct run_info *info), void *arg)
{
    unsigned queue_position = 0;
    for (const struct run *run = runs->first; run; run = run->next) {
        struct run_info info;
        if (run->stage != RUN_ACTIVE && run->stage != RUN_QUEUED)
            continue;
        fill_info(run, run->stage == RUN_QUEUED ? ++queue_position : 0, &info);
        visit(arg, &info);
    }
}

static void tell_progress(struct runs *runs)
{
    unsigned queue_position = 0;
    uint64_t now_ns = zc_now_ns();
    for (struct run *run = runs->first; run; run = run->next) {
        struct run_info info;
        if (run->stage != RUN_ACTIVE && run->stage != RUN_QUEUED)
            continue;
        queue_position += run->stage == RUN_QUEUED;
        int phase = run->stage == RUN_QUEUED ? -(int)queue_position : atomic_load(&run->progress.phase);
        if (phase == run->told_phase && now_ns - run->told_ns < PROGRESS_INTERVAL_NS)
            continue;
        run->told_phase = phase;
        run->told_ns = now_ns;
        fill_info(run, run->stage == RUN_QUEUED ? queue_position : 0, &info);
        for (struct run_waiter *waiter = run->waiters, *next; waiter; waiter = next) {
            next = waiter->next;
            if (waiter->progressed)
                waiter->progressed(waiter, &info);
        }
    }
}

/* To one who has just come. */
static void tell_position(const struct runs *runs, const struct run *run, struct run_waiter *waiter)
{
    struct run_info info;
    unsigned queue_position = 0;
    if (!waiter->progressed || run->stage == RUN_CANCELLING)
        return;
    for (const struct run *before = runs->first; run->stage == RUN_QUEUED && before != run; before = before->next)
        queue_position += before->stage == RUN_QUEUED;
    fill_info(run, run->stage == RUN_QUEUED ? queue_position + 1 : 0, &info);
    waiter->progressed(waiter, &info);
}

static void tell_end(const struct run *run, struct run_waiter *waiter)
{
    struct run_outcome outcome = {
        .document = run->document, .path = *run->path ? run->path : NULL,
        .store_error = *run->path ? NULL : run->store_error.message,
    };
    waiter->ended(waiter, &outcome);
}

/* ---- the queue */

static void close_cancel_fd(struct run *run)
{
    if (run->cancel_fd >= 0)
        close(run->cancel_fd);
    run->cancel_fd = -1;
}

static void run_destroy(struct run *run)
{
    while (run->waiters) {
        struct run_waiter *waiter = run->waiters;
        runs_forget(waiter);
        waiter->ended(waiter, NULL);
    }
    json_decref(run->document);
    close_cancel_fd(run);
    if (run->job)
        run->job->destroy(run->job);
    free(run);
}

static void log_end(const struct run *run)
{
    if (run->state == ZC_RUN_DONE)
        log_run(ZC_LOG_INFO, run->id, "run %s: done", run->id);
    else
        log_run(ZC_LOG_WARNING, run->id, "run %s: %s: %s", run->id, zc_run_state_names[run->state], run->error.message);
    if (!*run->path)
        log_run(ZC_LOG_ERROR, run->id, "run %s: %s", run->id, run->store_error.message);
}

static void count_end(struct runs_stats *totals, const struct run *run)
{
    struct runs_strategy ignored, *of_strategy = run->job ? &ignored : &totals->strategies[run->options.strategy];
    switch (run->state) {
    case ZC_RUN_DONE:
        totals->done++;
        of_strategy->done++;
        if (!isnan(run->gib_per_s))
            of_strategy->gib_per_s = run->gib_per_s;
        break;
    case ZC_RUN_FAILED:
        totals->failed++;
        of_strategy->failed++;
        totals->errors[run->error.kind]++;
        break;
    case ZC_RUN_CANCELLED:
        totals->cancelled++;
        of_strategy->cancelled++;
        break;
    }
    totals->not_stored += !*run->path;
}

/* Before the next run starts on it. */
static void tell_device_lost(const struct runs *runs, const struct run *run)
{
    const bool lost = run->error.kind == ZC_ERR_DEVICE && run->error.errnum == -ENODEV;
    if (lost && !run->own_device && !*run->gone && runs->params.device_lost)
        runs->params.device_lost(runs->params.device_arg);
}

static void finish(struct runs *runs, struct run *run)
{
    pthread_join(run->thread, NULL);
    run->stage = RUN_ENDED;
    close_cancel_fd(run);
    log_end(run);
    count_end(&runs->totals, run);
    tell_device_lost(runs, run);
    while (run->waiters) {
        struct run_waiter *waiter = run->waiters;
        runs_forget(waiter);
        tell_end(run, waiter);
    }
}

static void reap(struct runs *runs)
{
    for (struct run *run = runs->first; run; run = run->next)
        if ((run->stage == RUN_ACTIVE || run->stage == RUN_CANCELLING) && atomic_load(&run->ended))
            finish(runs, run);
}

static void forget_oldest(struct runs *runs)
{
    size_t ended = 0;
    for (const struct run *run = runs->first; run; run = run->next)
        ended += run->stage == RUN_ENDED;
    for (struct run **link = &runs->first; *link && ended > RUNS_REMEMBERED;) {
        struct run *run = *link;
        if (run->stage == RUN_ENDED) {
            *link = run->next;
            run_destroy(run);
            ended--;
        } else {
            link = &run->next;
        }
    }
}

static void start_next(struct runs *runs)
{
    struct run *next = NULL;
    for (struct run *run = runs->first; run; run = run->next) {
        if (run->stage == RUN_ACTIVE)
            return;
        if (run->stage == RUN_QUEUED && !next)
            next = run;
    }
    if (!next)
        return;
    next->stage = RUN_ACTIVE;
    next->device = runs->params.device;
    memcpy(next->gone, runs->gone, sizeof next->gone);
    int failed = start_thread(next);
    if (failed) {       /* no threads to be had: the tick tries again */
        log_run(ZC_LOG_ERROR, next->id, "run %s: cannot start its thread: %s", next->id, strerror(-failed));
        next->stage = RUN_QUEUED;
    } else {
        const struct log_about about = { .run = next->id, .peer = next->options.peer };
        log_about(ZC_LOG_INFO, &about, "run %s: started against %s", next->id, next->options.peer);
    }
}

bool runs_alive(const struct runs *runs)
{
    for (const struct run *run = runs->first; run; run = run->next)
        if (run->stage == RUN_ACTIVE || run->stage == RUN_CANCELLING)
            return true;
    return false;
}

static bool idle(const struct runs *runs)
{
    for (const struct run *run = runs->first; run; run = run->next)
        if (run->stage != RUN_ENDED)
            return false;
    return true;
}

/* The one place in which the queue moves: after a wake-up, a tick, a start or a cancel. */
static void advance(struct runs *runs)
{
    reap(runs);
    forget_oldest(runs);
    start_next(runs);
    tell_progress(runs);
    if (!idle(runs))
        return;
    loop_timer_stop(runs->tick);
    if (runs->stopped) {
        void (*stopped)(void *arg) = runs->stopped;
        runs->stopped = NULL;
        stopped(runs->stopped_arg);
    }
}

static void on_event(void *arg)
{
    advance(arg);
}

int runs_create(const struct runs_params *params, struct runs **runs, struct zc_error *err)
{
    struct runs *created = calloc(1, sizeof *created);
    if (!created)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "runs: out of memory");
    created->params = *params;
    for (int i = 0; i < ZC_STRATEGY_COUNT; i++)
        created->totals.strategies[i].gib_per_s = NAN;
    if (loop_wake_create(params->loop, on_event, created, &created->wake) != 0
        || loop_timer_create(params->loop, on_event, created, &created->tick) != 0) {
        loop_wake_destroy(created->wake);
        free(created);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "runs: out of memory");
    }
    *runs = created;
    return 0;
}

void runs_destroy(struct runs *runs)
{
    if (!runs)
        return;
    while (runs->first) {
        struct run *run = runs->first;
        runs->first = run->next;
        run_destroy(run);
    }
    loop_timer_destroy(runs->tick);
    loop_wake_destroy(runs->wake);
    free(runs);
}

/* "self" is this daemon's own listener; others default to the well-known port. */
static int resolve_peer(const struct runs *runs, const char *peer, char *host, uint16_t *port, struct zc_error *err)
{
    if (strcmp(peer, "self") != 0) {
        int failed = zc_peer_split(peer, host, port, err);
        if (!failed && *port == 0)
            *port = ZC_DEFAULT_PORT;
        return failed;
    }
    if (!*runs->params.self.address)
        return zc_error_set(err, ZC_ERR_DEVICE, -EADDRNOTAVAIL, "peer", "peer self: the RDMA device has no IP address");
    snprintf(host, ZC_PEER_MAX, "%s", runs->params.self.address);
    *port = runs->params.self.port;
    return 0;
}

static int check_room(const struct runs *runs, struct zc_error *err)
{
    struct runs_stats now;
    runs_stats(runs, &now);
    if (runs->stopping)
        return zc_error_set(err, ZC_ERR_BUSY, -ESHUTDOWN, NULL, "zcrdmad is stopping");
    if (now.queued >= RUNS_QUEUED_MAX)
        return zc_error_set(err, ZC_ERR_BUSY, -EBUSY, NULL, "%d runs are queued already", RUNS_QUEUED_MAX);
    return 0;
}

/* A run or, with `job`, a job of these options: its peer's and device's. */
static int enqueue(struct runs *runs, const struct zc_run_options *options, struct run_job *job, uint64_t owner_uid, char id[ZC_ID_MAX],
                   struct zc_error *err)
{
    int failed = check_room(runs, err);
    if (failed)
        return failed;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "run: out of memory");
    run->runs = runs;
    run->options = *options;
    run->owner_uid = owner_uid;
    run->job = job;
    failed = resolve_peer(runs, options->peer, run->host, &run->port, err);
    if (!failed && (run->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        failed = zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "run: eventfd: %s", strerror(errno));
    if (failed) {
        free(run);
        return failed;
    }
    make_id(runs, name_of(run), run->id);
    struct run **link = &runs->first;
    while (*link)
        link = &(*link)->next;
    *link = run;
    memcpy(id, run->id, sizeof run->id);
    loop_timer_start(runs->tick, TICK_S, TICK_S);
    advance(runs);
    return 0;
}

int runs_start(struct runs *runs, const struct zc_run_options *options, uint64_t owner_uid, char id[ZC_ID_MAX], struct zc_error *err)
{
    return enqueue(runs, options, NULL, owner_uid, id, err);
}

int runs_start_job(struct runs *runs, struct run_job *job, uint64_t owner_uid, char id[ZC_ID_MAX], struct zc_error *err)
{
    struct zc_run_options options;
    zc_run_options_init(&options);
    snprintf(options.peer, sizeof options.peer, "%s", job->peer);
    snprintf(options.device, sizeof options.device, "%s", job->device);
    options.size_bytes = 0;
    int failed = enqueue(runs, &options, job, owner_uid, id, err);
    if (failed)
        job->destroy(job);
    return failed;
}

/* A run in the queue gets a thread of its own that only stores it as cancelled: storing may block. */
static void cancel(struct run *run)
{
    uint64_t one = 1;
    if (run->stage == RUN_ENDED || run->stage == RUN_CANCELLING || atomic_exchange(&run->cancel, true))
        return;
    if (write(run->cancel_fd, &one, sizeof one) < 0)
        log_run(ZC_LOG_ERROR, run->id, "run %s: cannot be woken for cancelling: %s", run->id, strerror(errno));
    if (run->stage != RUN_QUEUED)
        return;
    run->stage = RUN_CANCELLING;
    if (start_thread(run) != 0) {
        run->stage = RUN_QUEUED;        /* its turn will come, and end at once */
        log_run(ZC_LOG_ERROR, run->id, "run %s: no thread to cancel it with", run->id);
    }
}

int runs_cancel(struct runs *runs, const char *id, struct zc_error *err)
{
    struct run *run = find(runs, id);
    if (!run)
        return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "id", "no run %.60s is queued or active", id);
    if (run->stage == RUN_ENDED)
        return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "id", "run %s has ended already", run->id);
    cancel(run);
    return 0;
}

bool runs_owner(struct runs *runs, const char *id, uint64_t *owner_uid)
{
    const struct run *run = find(runs, id);
    if (run)
        *owner_uid = run->owner_uid;
    return run != NULL;
}

bool runs_wait(struct runs *runs, const char *id, struct run_waiter *waiter)
{
    struct run *run = find(runs, id);
    if (!run)
        return false;
    if (run->stage == RUN_ENDED) {
        tell_end(run, waiter);
        return true;
    }
    waiter->next = run->waiters;
    waiter->link = &run->waiters;
    if (waiter->next)
        waiter->next->link = &waiter->next;
    run->waiters = waiter;
    tell_position(runs, run, waiter);
    return true;
}

void runs_forget(struct run_waiter *waiter)
{
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
}

void runs_stats(const struct runs *runs, struct runs_stats *stats)
{
    *stats = runs->totals;
    for (const struct run *run = runs->first; run; run = run->next) {
        stats->active += run->stage == RUN_ACTIVE;
        stats->queued += run->stage == RUN_QUEUED;
    }
}

void runs_device_gone(struct runs *runs, const char *name)
{
    snprintf(runs->gone, sizeof runs->gone, "%s", name);
    runs->params.device = NULL;
}

void runs_device_back(struct runs *runs, const struct zc_device *device, const struct run_self *self)
{
    runs->gone[0] = 0;
    runs->params.device = device;
    runs->params.self = *self;
}

void runs_stop(struct runs *runs, void (*stopped)(void *arg), void *arg)
{
    runs->stopping = true;
    runs->stopped = stopped;
    runs->stopped_arg = arg;
    for (struct run *run = runs->first; run; run = run->next)
        cancel(run);
    advance(runs);
}
