/* Does copy_blocking overlap its READs with its copies? Beside it, in turns: the READ alone (same chunks, same staging slots, no
 * copy), memcpy alone (same slots, same user buffers), and one after the other. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "load.h"
#include "memory.h"
#include "pipeline.h"

enum { REGION = 64 << 20, LONG_REQUEST = 16 };

static struct settings {
    uint64_t size, mr_size, footprint;
    unsigned rounds;
    double window_s;
} settings = {1 << 20, 256 << 10, 256 << 20, 9, 0.4};

/* One way of moving a request, with its figures. */
struct subject {
    const char *name;
    struct zc_strategy strategy;
    struct zc_run_options options;
    struct zc_pipeline *pipeline;
    struct bench_figure ns_per_mib;
};

static struct zc_memory_ops staging_without_copy;
static struct zc_buffer user;

static int no_copy(struct zc_pipeline *pipeline, struct zc_chunk *chunk)
{
    (void)pipeline, (void)chunk;
    return 0;
}

static void make_subject(struct bench *bench, struct subject *subject, const char *name, uint64_t size, uint64_t mr_size, bool copies)
{
    struct zc_error err;
    *subject = (struct subject){.name = name, .strategy = zc_strategies[ZC_COPY_BLOCKING]};
    if (!copies)
        subject->strategy.memory = &staging_without_copy;
    zc_run_options_init(&subject->options);
    subject->options.size_bytes = size;
    subject->options.mr_size_bytes = mr_size;
    const struct zc_pipeline_params params = {
        .strategy = &subject->strategy, .options = &subject->options, .depth = 1, .device = bench->device,
        .completion = bench->completion, .connection = bench->connection, .send_slots = BENCH_SEND_SLOTS, .user = &user,
        .numa_node = -1, .cancel_fd = -1,
    };
    if (zc_pipeline_create(&params, &subject->pipeline, &err) < 0)
        bench_fail("%s", err.message);
}

static void measure_subject(struct subject *subject)
{
    struct zc_load load;
    const uint64_t stride = zc_load_stride(subject->options.size_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    zc_load_init(&load, subject->pipeline, subject->options.size_bytes, user.address, user.length_bytes / stride, REGION, true);
    struct zc_pass pass = {.depth = 1, .warmup_ns = 50000000, .window_ns = (uint64_t)(settings.window_s * 1e9)};
    if (zc_load_run(&load, &pass) < 0)
        bench_fail("%s: %s", subject->name, zc_pipeline_error(subject->pipeline)->message);
    bench_add(&subject->ns_per_mib, (double)(pass.end_ns - pass.start_ns) / ((double)pass.bytes / 1048576));
}

/* The copies of the same requests, from as many slots, in the order in which copy_blocking uses them. */
static void measure_memcpy(struct bench_figure *ns_per_mib, const struct zc_buffer *slots)
{
    const uint64_t stride = zc_load_stride(settings.size, (uint64_t)sysconf(_SC_PAGESIZE)), buffers = user.length_bytes / stride;
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t bytes = 0, now = begin;
    for (uint64_t i = 0; now < end; i++, now = zc_now_ns()) {
        uint8_t *const to = (uint8_t *)user.address + i % buffers * stride;
        for (uint64_t at = 0; at < settings.size; at += settings.mr_size) {
            const uint64_t length = settings.size - at < settings.mr_size ? settings.size - at : settings.mr_size;
            memcpy(to + at, (const uint8_t *)slots->address + at % slots->length_bytes, length);
        }
        bytes += settings.size;
    }
    bench_add(ns_per_mib, (double)(now - begin) / ((double)bytes / 1048576));
}

static void print_row(const char *name, const struct bench_figure *ns_per_mib)
{
    printf("%-44s %8.2f %8.2f ..%7.2f %10.1f\n", name, 1e9 / 1024 / bench_median(ns_per_mib), 1e9 / 1024 / bench_max(ns_per_mib),
           1e9 / 1024 / bench_min(ns_per_mib), bench_median(ns_per_mib) / 1e3);
}

/* Ratios are taken round by round: what disturbs the machine for a while disturbs both sides. */
static void print_ratio(const char *name, const struct bench_figure *ratio, double goal)
{
    printf("%-44s %8.2f %8.2f ..%7.2f", name, bench_median(ratio), bench_min(ratio), bench_max(ratio));
    if (goal > 0)
        printf("   goal %.2f: %s", goal, bench_median(ratio) >= goal ? "reached" : "MISSED");
    putchar('\n');
}

static void print_table(struct subject *copy, struct subject *alone, struct subject *serial, struct subject *longer,
                        const struct bench_figure *copying)
{
    struct bench_figure sum = {.count = 0}, over_sum = sum, over_slower = sum, bound = sum, long_over_slower = sum, copy_over_read = sum;
    const double chunks = ceil((double)settings.size / (double)settings.mr_size);
    for (size_t i = 0; i < copying->count; i++) {
        const double r = alone->ns_per_mib.values[i], c = copying->values[i], t = copy->ns_per_mib.values[i];
        const double slower = r > c ? r : c;
        bench_add(&sum, r + c);
        bench_add(&over_sum, (r + c) / t);
        bench_add(&over_slower, slower / t);
        /* The first READ and the last copy of a request have nothing beside them. */
        bench_add(&bound, slower / ((r + (chunks - 1) * slower + c) / chunks));
        bench_add(&long_over_slower, slower / longer->ns_per_mib.values[i]);
        bench_add(&copy_over_read, c / r);
    }
    printf("%-44s %8s %18s %10s\n", "", "GiB/s", "lowest .. highest", "us/MiB");
    print_row(alone->name, &alone->ns_per_mib);
    print_row("memcpy alone", copying);
    print_row("sum of both", &sum);
    print_row(serial->name, &serial->ns_per_mib);
    print_row(copy->name, &copy->ns_per_mib);
    print_row(longer->name, &longer->ns_per_mib);
    printf("\n%-44s %8s %18s\n", "", "ratio", "lowest .. highest");
    print_ratio("copy_blocking to the sum of both", &over_sum, 1.2);
    print_ratio("copy_blocking to the slower of the two", &over_slower, 0.75);
    print_ratio("  what the number of chunks allows", &bound, 0);
    print_ratio("  the long request to the slower of the two", &long_over_slower, 0);
    print_ratio("time of a copy to time of its READ", &copy_over_read, 0);
}

static void parse(int argc, char **argv)
{
    static const struct option longs[] = {
        {"size", required_argument, NULL, 's'},   {"mr-size", required_argument, NULL, 'm'}, {"footprint", required_argument, NULL, 'f'},
        {"rounds", required_argument, NULL, 'r'}, {"window", required_argument, NULL, 'w'},  {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;)
        switch (option) {
        case 's': settings.size = bench_size(optarg); break;
        case 'm': settings.mr_size = bench_size(optarg); break;
        case 'f': settings.footprint = bench_size(optarg); break;
        case 'r': settings.rounds = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'w': settings.window_s = strtod(optarg, NULL); break;
        default: bench_fail("usage: overlap [--size S] [--mr-size S] [--footprint S] [--rounds N] [--window SECONDS]");
        }
    if (settings.mr_size == 0 || settings.size < settings.mr_size || settings.size * LONG_REQUEST > REGION || settings.rounds < 1 ||
        settings.rounds > BENCH_ROUNDS_MAX || settings.window_s <= 0)
        bench_fail("--size from --mr-size to %d bytes, --rounds 1 to %d, --window above 0", REGION / LONG_REQUEST, BENCH_ROUNDS_MAX);
}

int main(int argc, char **argv)
{
    struct zc_error err;
    struct bench bench;
    struct subject copy, alone, serial, longer;
    struct bench_figure copying = {.count = 0};
    struct zc_buffer slots;
    struct zc_terms terms;
    char name[64];

    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_open(&bench, REGION, 1);
    staging_without_copy = *zc_strategies[ZC_COPY_BLOCKING].memory;
    staging_without_copy.after = no_copy;
    if (zc_buffer_create(settings.footprint, -1, &user, &err) < 0)
        bench_fail("%s", err.message);
    snprintf(name, sizeof name, "copy_blocking, requests %d times as long", LONG_REQUEST);
    make_subject(&bench, &alone, "READ alone", settings.size, settings.mr_size, false);
    make_subject(&bench, &serial, "one after the other (one chunk a request)", settings.size, settings.size, true);
    make_subject(&bench, &copy, "copy_blocking", settings.size, settings.mr_size, true);
    make_subject(&bench, &longer, name, settings.size * LONG_REQUEST, settings.mr_size, true);
    zc_pipeline_terms(copy.pipeline, &terms);
    if (zc_buffer_create(terms.staging_bytes, -1, &slots, &err) < 0)
        bench_fail("%s", err.message);

    const struct zc_device_info *const device = zc_device_info(bench.device);
    printf("overlap on %s (%s): requests of %lu bytes, chunks of %lu, %lu staging slots, %lu MiB of user buffers, %ld CPUs, "
           "%u rounds of %g s each\n\n", device->name, zc_device_kind_names[device->kind], (unsigned long)settings.size,
           (unsigned long)terms.chunk_bytes, (unsigned long)terms.staging_slots, (unsigned long)(settings.footprint >> 20),
           sysconf(_SC_NPROCESSORS_ONLN), settings.rounds, settings.window_s);
    for (unsigned round = 0; round < settings.rounds; round++) {
        measure_subject(&alone);
        measure_memcpy(&copying, &slots);
        measure_subject(&copy);
        measure_subject(&serial);
        measure_subject(&longer);
    }
    print_table(&copy, &alone, &serial, &longer, &copying);

    zc_connection_close(bench.connection);
    bench.connection = NULL;
    zc_pipeline_destroy(longer.pipeline);
    zc_pipeline_destroy(copy.pipeline);
    zc_pipeline_destroy(serial.pipeline);
    zc_pipeline_destroy(alone.pipeline);
    zc_buffer_destroy(&slots);
    zc_buffer_destroy(&user);
    bench_close(&bench);
    return 0;
}
