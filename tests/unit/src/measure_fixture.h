/* For tests of zc_measure() on a real device: allocator calls counted by thread, a responder in a thread of this process, a run with
 * what the test wants to happen in it, and the check that nothing is left of it. */
#ifndef MEASURE_FIXTURE_H
#define MEASURE_FIXTURE_H

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "counters.h"
#include "measure.h"
#include "region.h"
#include "pipeline.h"
#include "responder.h"

/* --- allocator calls of each thread ---------------------------------------------------------------------------- */

static _Thread_local uint64_t thread_allocations;
static uint64_t count_allocations(void) { return thread_allocations; }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *old);
void *malloc(size_t size) { thread_allocations++; return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { thread_allocations++; return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { thread_allocations++; return __libc_realloc(old, size); }
void free(void *old) { thread_allocations++; __libc_free(old); }
#endif

/* --- a peer in a thread ---------------------------------------------------------------------------------------- */

enum { REGION = 16 << 20 };
static struct zc_device *device;
static struct zc_region *region;
static struct zc_responder *responder;
static pthread_t thread;
static atomic_bool leave;

static void *serve(void *arg)
{
    (void)arg;
    while (!atomic_load(&leave)) {
        struct pollfd fd = {.fd = zc_responder_fd(responder), .events = POLLIN};
        poll(&fd, 1, 50);
        zc_responder_process(responder);
    }
    return NULL;
}

static void log_line(void *arg, enum zc_log_level level, const char *message)
{
    (void)arg;
    if (level <= ZC_LOG_WARNING)
        print_message("responder: %s\n", message);
}

static inline int start_peer(void **state)
{
    (void)state;
    struct zc_error err = {.kind = ZC_ERR_NONE};
    const struct zc_responder_params params = {
        .device = device, .region = region, .max_sessions = 8, .max_qps_per_session = 4, .hello_timeout_ms = 2000, .log = log_line,
    };
    if (zc_responder_create(&params, &responder, &err) < 0)
        fail_msg("%s", err.message);
    atomic_store(&leave, false);
    return pthread_create(&thread, NULL, serve, NULL);
}

static void stop_peer_now(void)
{
    if (!responder)
        return;
    atomic_store(&leave, true);
    pthread_join(thread, NULL);
    zc_responder_destroy(responder);
    responder = NULL;
}

static inline int stop_peer(void **state)
{
    (void)state;
    stop_peer_now();
    return 0;
}

static inline int open_device(void **state)
{
    (void)state;
    struct zc_error err = {.kind = ZC_ERR_NONE};
    if (zc_device_open(NULL, &device, &err) < 0 || zc_region_create(device, REGION, 4711, &region, &err) < 0) {
        print_message("%s\n", err.message);
        return -1;
    }
    print_message("on %s (%s)\n", zc_device_info(device)->name, zc_device_kind_names[zc_device_info(device)->kind]);
    return 0;
}

static inline int close_device(void **state)
{
    (void)state;
    zc_region_destroy(region);
    zc_device_close(device);
    return 0;
}

/* --- a run ----------------------------------------------------------------------------------------------------- */

static atomic_bool cancel;
static int cancel_fd = -1;
static struct zc_progress progress;
static uint64_t wakes, cancelled_ns, longest_gap_ns, last_wake_ns;
static double cancel_after_s, stop_peer_after_s, withdraw_after_s;  /* in the window; 0: never */
static bool withdrawn;                              /* the region */
static enum zc_phase act_in;

static void wake(void *arg)
{
    const uint64_t now = zc_now_ns();
    (void)arg;
    wakes++;
    if (last_wake_ns && now - last_wake_ns > longest_gap_ns)
        longest_gap_ns = now - last_wake_ns;
    last_wake_ns = now;
    if (atomic_load(&progress.phase) != (int)act_in)
        return;
    const double in_phase = (double)(now - atomic_load(&progress.phase_started_ns)) / 1e9;
    if (cancel_after_s > 0 && in_phase >= cancel_after_s && !cancelled_ns) {
        cancelled_ns = now;
        atomic_store(&cancel, true);
        assert_int_equal(eventfd_write(cancel_fd, 1), 0);
    }
    if (stop_peer_after_s > 0 && in_phase >= stop_peer_after_s)
        stop_peer_now();
    if (withdraw_after_s > 0 && in_phase >= withdraw_after_s && !withdrawn) {
        withdrawn = true;
        zc_region_withdraw(region);
    }
}

static struct zc_run_options options;

static inline void set_options(uint64_t size)
{
    zc_run_options_init(&options);
    options.strategy = ZC_COPY_BLOCKING;
    strcpy(options.peer, "self");
    options.size_bytes = size;
    options.warmup_s = 0.05;
    options.measure_s = 0.35;
    options.footprint_bytes = 8 << 20;
    options.memory_max_bytes = 64 << 20;
}

static int run_at(uint16_t port, struct zc_result *result)
{
    zc_result_init(result);
    atomic_store(&cancel, false);
    cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    wakes = cancelled_ns = longest_gap_ns = last_wake_ns = 0;
    memset(&progress, 0, sizeof progress);
    const struct zc_measure_params params = {
        .device = device, .options = options, .host = zc_device_info(device)->address, .port = port, .cancel_fd = cancel_fd,
        .cancel = &cancel, .thread_allocations = count_allocations, .wake = wake, .progress = &progress,
    };
    const uint64_t mrs = atomic_load(&zc_counters.mrs), cqs = atomic_load(&zc_counters.cqs);
    const int rc = zc_measure(&params, result);
    close(cancel_fd);
    cancel_after_s = stop_peer_after_s = withdraw_after_s = 0;
    assert_int_equal(atomic_load(&zc_counters.cqs), responder ? cqs : cqs - 1);
    /* The responder has one for its receives. */
    assert_int_equal(atomic_load(&zc_counters.mrs), mrs - (responder ? 0 : 1) - (withdrawn ? 1 : 0));
    assert_int_equal(atomic_load(&progress.phase), ZC_PHASE_END);
    assert_int_equal(result->error.errnum, rc);
    if (rc < 0)
        print_message("    %s: %s\n", zc_error_kind_name(result->error.kind), result->error.message);
    return rc;
}

static inline int run(struct zc_result *result)
{
    return run_at(zc_responder_port(responder), result);
}

/* A window that a busy machine slept through is tried again, longer. */
static inline void assert_done(struct zc_result *result)
{
    int rc;
    while ((rc = run(result)) < 0 && result->error.kind == ZC_ERR_UNMEASURED && options.measure_s < 5) {
        zc_result_destroy(result);
        options.measure_s *= 4;
    }
    if (rc < 0)
        fail_msg("%s", result->error.message);
    assert_int_equal(result->state, ZC_RUN_DONE);
}

#endif
