/* See bench.h. */
#include "bench.h"

#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "region.h"
#include "responder.h"

static struct zc_region *region;
static struct zc_responder *responder;
static pthread_t thread;
static atomic_bool leave;

void bench_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *serve(void *arg)
{
    (void)arg;
    while (!atomic_load(&leave)) {
        struct pollfd fd = {.fd = zc_responder_fd(responder), .events = POLLIN};
        poll(&fd, 1, 100);
        zc_responder_process(responder);
    }
    return NULL;
}

void bench_open(struct bench *bench, uint64_t region_bytes, uint32_t qps)
{
    struct zc_error err = {.kind = ZC_ERR_NONE};
    *bench = (struct bench){.device = NULL};
    if (zc_device_open(NULL, &bench->device, &err) < 0 || zc_region_create(bench->device, region_bytes, 1, &region, &err) < 0)
        bench_fail("%s", err.message);
    bench->region = (const uint8_t *)(uintptr_t)zc_region_address(region);
    const struct zc_responder_params peer = {
        .device = bench->device, .region = region, .max_sessions = 4, .max_qps_per_session = qps, .hello_timeout_ms = 5000,
    };
    if (zc_responder_create(&peer, &responder, &err) < 0)
        bench_fail("%s", err.message);
    if (pthread_create(&thread, NULL, serve, NULL) != 0)
        bench_fail("no thread for the peer");
    if (zc_completion_create(bench->device, (int)(qps * (BENCH_SEND_SLOTS + 1)), &bench->completion, &err) < 0)
        bench_fail("%s", err.message);
    const struct zc_connection_params connection = {
        .host = zc_device_info(bench->device)->address, .port = zc_responder_port(responder), .qps = qps,
        .send_slots = BENCH_SEND_SLOTS, .timeout_ms = 5000, .cancel_fd = -1, .completion = bench->completion,
    };
    if (zc_connection_open(bench->device, &connection, &bench->connection, &err) < 0)
        bench_fail("%s", err.message);
}

void bench_close(struct bench *bench)
{
    zc_connection_close(bench->connection);
    zc_completion_destroy(bench->completion);
    atomic_store(&leave, true);
    pthread_join(thread, NULL);
    zc_responder_destroy(responder);
    zc_region_destroy(region);
    zc_device_close(bench->device);
}

bool bench_realtime(void)
{
    const struct sched_param priority = {.sched_priority = 10};
    DIR *const tasks = opendir("/proc/self/task");
    bool granted = tasks != NULL;
    for (const struct dirent *task; granted && (task = readdir(tasks));)
        if (task->d_name[0] != '.')
            granted = sched_setscheduler((pid_t)strtol(task->d_name, NULL, 10), SCHED_FIFO, &priority) == 0;
    if (tasks)
        closedir(tasks);
    return granted;
}

double bench_load(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? load : NAN;
}

void bench_add(struct bench_figure *figure, double value)
{
    if (figure->count < BENCH_ROUNDS_MAX)
        figure->values[figure->count++] = value;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const struct bench_figure *figure, size_t rank)
{
    struct bench_figure sorted = *figure;
    qsort(sorted.values, sorted.count, sizeof sorted.values[0], ascending);
    return sorted.values[rank];
}

double bench_median(const struct bench_figure *figure) { return at(figure, figure->count / 2); }
double bench_min(const struct bench_figure *figure) { return at(figure, 0); }
double bench_max(const struct bench_figure *figure) { return at(figure, figure->count - 1); }

uint64_t bench_size(const char *text)
{
    uint64_t bytes;
    if (zc_size_parse(text, &bytes) < 0)
        bench_fail("%s is not a size", text);
    return bytes;
}
