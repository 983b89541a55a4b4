/* Does copy_blocking overlap its READs with its copies? Beside it, in turns: the READ alone (same chunks, same staging slots, no
 * copy), memcpy alone (same slots, same user buffers), and one after the other; and, to tell what limits it, finer chunks and longer
 * requests. */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "load.h"
#include "memory.h"
#include "pipeline.h"
#include "result.h"

enum { REGION = 64 << 20, LONGER = 16, FINER = 4 };

static struct settings {
    uint64_t size, mr_size, footprint;
    unsigned rounds;
    double window_s;
    bool realtime;
} settings = {1 << 20, 256 << 10, 256 << 20, 11, 0.3, false};

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

/* The copies of one request, from as many slots as copy_blocking has, in the order in which it uses them. */
static void copy_request(uint8_t *to, const struct zc_buffer *slots)
{
    for (uint64_t at = 0; at < settings.size; at += settings.mr_size) {
        const uint64_t length = settings.size - at < settings.mr_size ? settings.size - at : settings.mr_size;
        memcpy(to + at, (const uint8_t *)slots->address + at % slots->length_bytes, length);
    }
}

static void measure_memcpy(struct bench_figure *ns_per_mib, const struct zc_buffer *slots)
{
    const uint64_t stride = zc_load_stride(settings.size, (uint64_t)sysconf(_SC_PAGESIZE)), buffers = user.length_bytes / stride;
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t bytes = 0, now = begin;
    for (uint64_t i = 0; now < end; i++, now = zc_now_ns()) {
        copy_request((uint8_t *)user.address + i % buffers * stride, slots);
        bytes += settings.size;
    }
    bench_add(ns_per_mib, (double)(now - begin) / ((double)bytes / 1048576));
}

/* What the machine itself charges for handing bytes over: a second thread, standing for the device, fills the slots of a request
 * from the region by memcpy; then this one copies them out. Strictly in turn, no verbs. */
struct helper {
    const uint8_t *region;
    const struct zc_buffer *slots;
    uint64_t at;
    atomic_int turn;                /* 0 this thread's, 1 the helper's, 2 the end */
};

static void *help(void *arg)
{
    struct helper *const helper = arg;
    const uint64_t slots = helper->slots->length_bytes;
    for (int turn; (turn = atomic_load(&helper->turn)) != 2;) {
        if (turn == 0)
            continue;
        for (uint64_t at = 0; at < settings.size; at += slots)
            memcpy(helper->slots->address, helper->region + helper->at + at, settings.size - at < slots ? settings.size - at : slots);
        helper->at = helper->at + 2 * settings.size <= REGION ? helper->at + settings.size : 0;
        atomic_store(&helper->turn, 0);
    }
    return NULL;
}

static void measure_handing_over(struct bench_figure *ns_per_mib, const struct bench *bench, const struct zc_buffer *slots)
{
    struct helper helper = {.region = bench->region, .slots = slots};
    const uint64_t stride = zc_load_stride(settings.size, (uint64_t)sysconf(_SC_PAGESIZE)), buffers = user.length_bytes / stride;
    pthread_t thread;
    if (pthread_create(&thread, NULL, help, &helper) != 0)
        bench_fail("no second thread");
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t bytes = 0, now = begin;
    for (uint64_t i = 0; now < end; i++, now = zc_now_ns()) {
        atomic_store(&helper.turn, 1);
        while (atomic_load(&helper.turn) != 0)
            ;
        copy_request((uint8_t *)user.address + i % buffers * stride, slots);
        bytes += settings.size;
    }
    atomic_store(&helper.turn, 2);
    pthread_join(thread, NULL);
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

/* The first READ and the last copy of a request have nothing beside them: the best time for `chunks` chunks. */
static double pipelined(double read, double copy, double chunks)
{
    return (read + (chunks - 1) * fmax(read, copy) + copy) / chunks;
}

struct subjects {
    struct subject alone, serial, copy, finer, longer;
};

static void print_table(const struct subjects *s, const struct bench_figure *copying, const struct bench_figure *handing)
{
    struct bench_figure sum = {.count = 0}, over_sum = sum, over_slower = sum, bound = sum, finer = sum, longer = sum, over_handing = sum;
    const double chunks = ceil((double)settings.size / (double)settings.mr_size);
    for (size_t i = 0; i < copying->count; i++) {
        const double read = s->alone.ns_per_mib.values[i], copy = copying->values[i], both = s->copy.ns_per_mib.values[i];
        const double slower = fmax(read, copy);
        bench_add(&sum, read + copy);
        bench_add(&over_sum, (read + copy) / both);
        bench_add(&over_slower, slower / both);
        bench_add(&bound, slower / pipelined(read, copy, chunks));
        bench_add(&finer, slower / s->finer.ns_per_mib.values[i]);
        bench_add(&longer, slower / s->longer.ns_per_mib.values[i]);
        bench_add(&over_handing, handing->values[i] / both);
    }
    printf("%-44s %8s %18s %10s\n", "", "GiB/s", "lowest .. highest", "us/MiB");
    print_row(s->alone.name, &s->alone.ns_per_mib);
    print_row("memcpy alone", copying);
    print_row("sum of both", &sum);
    print_row("two threads in turn by memcpy, no device", handing);
    print_row(s->serial.name, &s->serial.ns_per_mib);
    print_row(s->copy.name, &s->copy.ns_per_mib);
    print_row(s->finer.name, &s->finer.ns_per_mib);
    print_row(s->longer.name, &s->longer.ns_per_mib);
    printf("\n%-44s %8s %18s\n", "", "ratio", "lowest .. highest");
    print_ratio("copy_blocking to the sum of both", &over_sum, 1.2);
    print_ratio("copy_blocking to the slower of the two", &over_slower, 0.75);
    print_ratio("  the most that the number of chunks allows", &bound, 0);
    print_ratio("  finer chunks to the slower of the two", &finer, 0);
    print_ratio("  longer requests to the slower of the two", &longer, 0);
    print_ratio("copy_blocking to the two threads in turn", &over_handing, 0);
}

static void parse(int argc, char **argv)
{
    static const struct option longs[] = {
        {"size", required_argument, NULL, 's'},   {"mr-size", required_argument, NULL, 'm'}, {"footprint", required_argument, NULL, 'f'},
        {"rounds", required_argument, NULL, 'r'}, {"window", required_argument, NULL, 'w'},
        {"realtime", no_argument, NULL, 'R'},     {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;)
        switch (option) {
        case 's': settings.size = bench_size(optarg); break;
        case 'm': settings.mr_size = bench_size(optarg); break;
        case 'f': settings.footprint = bench_size(optarg); break;
        case 'r': settings.rounds = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'w': settings.window_s = strtod(optarg, NULL); break;
        case 'R': settings.realtime = true; break;
        default: bench_fail("usage: overlap [--size S] [--mr-size S] [--footprint S] [--rounds N] [--window SECONDS] [--realtime]");
        }
    if (settings.mr_size < FINER || settings.size < settings.mr_size || settings.size * LONGER > REGION || settings.rounds < 1 ||
        settings.rounds > BENCH_ROUNDS_MAX || settings.window_s <= 0)
        bench_fail("--size from --mr-size to %d bytes, --rounds 1 to %d, --window above 0", REGION / LONGER, BENCH_ROUNDS_MAX);
}

static void print_header(const struct bench *bench, const struct zc_terms *terms)
{
    const struct zc_device_info *const device = zc_device_info(bench->device);
    printf("overlap on %s (%s): requests of %lu bytes, chunks of %lu, %lu staging slots, %lu MiB of user buffers,\n"
           "%u rounds of %g s each, %ld CPUs, load average %.1f%s\n\n", device->name, zc_device_kind_names[device->kind],
           (unsigned long)settings.size, (unsigned long)terms->chunk_bytes, (unsigned long)terms->staging_slots,
           (unsigned long)(settings.footprint >> 20), settings.rounds, settings.window_s, sysconf(_SC_NPROCESSORS_ONLN), bench_load(),
           settings.realtime ? ", SCHED_FIFO" : "");
}

/* All pipelines share the connection: only one has requests in flight at a time. */
static void make_subjects(struct bench *bench, struct subjects *s)
{
    static char finer_name[64], longer_name[64];
    snprintf(finer_name, sizeof finer_name, "copy_blocking, chunks a %dth as large", FINER);
    snprintf(longer_name, sizeof longer_name, "copy_blocking, requests %d times as long", LONGER);
    make_subject(bench, &s->alone, "READ alone", settings.size, settings.mr_size, false);
    make_subject(bench, &s->serial, "one after the other (one chunk a request)", settings.size, settings.size, true);
    make_subject(bench, &s->copy, "copy_blocking", settings.size, settings.mr_size, true);
    make_subject(bench, &s->finer, finer_name, settings.size, settings.mr_size / FINER, true);
    make_subject(bench, &s->longer, longer_name, settings.size * LONGER, settings.mr_size, true);
}

static void destroy_subjects(struct subjects *s)
{
    zc_pipeline_destroy(s->longer.pipeline);
    zc_pipeline_destroy(s->finer.pipeline);
    zc_pipeline_destroy(s->copy.pipeline);
    zc_pipeline_destroy(s->serial.pipeline);
    zc_pipeline_destroy(s->alone.pipeline);
}

int main(int argc, char **argv)
{
    struct zc_error err;
    struct bench bench;
    struct subjects subjects;
    struct bench_figure copying = {.count = 0}, handing = {.count = 0};
    struct zc_buffer slots;
    struct zc_terms terms;

    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_open(&bench, REGION, 1);
    staging_without_copy = *zc_strategies[ZC_COPY_BLOCKING].memory;
    staging_without_copy.after = no_copy;
    if (zc_buffer_create(settings.footprint, -1, &user, &err) < 0)
        bench_fail("%s", err.message);
    make_subjects(&bench, &subjects);
    zc_pipeline_terms(subjects.copy.pipeline, &terms);
    if (zc_buffer_create(terms.staging_bytes, -1, &slots, &err) < 0)
        bench_fail("%s", err.message);
    if (settings.realtime && !bench_realtime())
        bench_fail("SCHED_FIFO is refused");

    print_header(&bench, &terms);
    for (unsigned round = 0; round < settings.rounds; round++) {
        measure_subject(&subjects.alone);
        measure_memcpy(&copying, &slots);
        measure_handing_over(&handing, &bench, &slots);
        measure_subject(&subjects.copy);
        measure_subject(&subjects.serial);
        measure_subject(&subjects.finer);
        measure_subject(&subjects.longer);
    }
    print_table(&subjects, &copying, &handing);

    zc_connection_close(bench.connection);
    bench.connection = NULL;
    destroy_subjects(&subjects);
    zc_buffer_destroy(&slots);
    zc_buffer_destroy(&user);
    bench_close(&bench);
    return 0;
}
