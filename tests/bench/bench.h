/* What the benches share: a peer in a thread of the same process, a connection to it, and figures with their range. Errors end the
 * program with one line: a bench has nothing to recover. */
#ifndef ZC_BENCH_H
#define ZC_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "completion.h"
#include "connection.h"
#include "device.h"

enum { BENCH_SEND_SLOTS = 128, BENCH_ROUNDS_MAX = 101 };

struct bench {
    struct zc_device *device;
    struct zc_completion *completion;
    struct zc_connection *connection;
    const uint8_t *region;          /* the peer's, which is this process' */
};

/* Open the first device, expose `region_bytes` on it, connect to it with `qps` QPs. */
void bench_open(struct bench *bench, uint64_t region_bytes, uint32_t qps);
void bench_close(struct bench *bench);
/* Put every thread of the program, the software device's too, under SCHED_FIFO: nothing else gets their CPUs. False if refused. */
bool bench_realtime(void);
/* Programs that want a CPU right now besides this one: the load average of the last minute. NAN if unknown. */
double bench_load(void);

/* One figure a round; the median and the range are what is printed. */
struct bench_figure {
    double values[BENCH_ROUNDS_MAX];
    size_t count;
};
void bench_add(struct bench_figure *figure, double value);
double bench_median(const struct bench_figure *figure);
double bench_min(const struct bench_figure *figure);
double bench_max(const struct bench_figure *figure);

/* "64K" -> bytes, or the end of the program. */
uint64_t bench_size(const char *text);
void bench_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
