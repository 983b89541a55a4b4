/* The rings and the file: see trace.h. */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"

const char *const zc_trace_stage_names[] = {
    [ZC_TRACE_SUBMITTED] = "submitted", [ZC_TRACE_REGISTERED] = "registered", [ZC_TRACE_POSTED] = "posted",
    [ZC_TRACE_COMPLETED] = "completed", [ZC_TRACE_COPIED] = "copied", [ZC_TRACE_DEREGISTERED] = "deregistered",
    [ZC_TRACE_RECLAIMED] = "reclaimed", NULL,
};

enum { CACHE_LINE = 64, RECORDS_MIN = 64, NAME_MAX_BYTES = 16 };

/* One thread writes it, and nobody reads before that thread has stopped. */
struct ring {
    alignas(CACHE_LINE) uint64_t written;   /* ever; the newest is at (written - 1) % capacity */
    struct zc_trace_record *records;
    char name[NAME_MAX_BYTES];              /* of its thread, as the kernel calls it */
};

struct zc_trace {
    unsigned number;            /* no other trace of this process has it */
    uint32_t ring_count;
    uint64_t capacity;          /* records of a ring */
    struct ring *rings;
    struct zc_trace_record *records;
    atomic_uint taken;          /* rings that belong to a thread */
    atomic_uint_least64_t homeless;     /* records of threads that found no ring */
};

static atomic_uint last_number;

/* The calling thread's ring, and the trace that it belongs to. Addresses are used again, numbers are not. */
static _Thread_local struct {
    unsigned number;
    struct ring *ring;
} mine;

int zc_trace_create(uint32_t threads, uint64_t records, struct zc_trace **trace, struct zc_error *err)
{
    struct zc_trace *const made = calloc(1, sizeof *made);
    if (!made)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, "logging", "no memory for a trace");
    made->ring_count = threads;
    made->capacity = records / threads > RECORDS_MIN ? records / threads : RECORDS_MIN;
    made->number = atomic_fetch_add(&last_number, 1) + 1;
    made->rings = aligned_alloc(CACHE_LINE, threads * sizeof *made->rings);
    made->records = malloc(threads * made->capacity * sizeof *made->records);
    if (!made->rings || !made->records) {
        zc_trace_destroy(made);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, "logging", "no memory for a trace of %" PRIu32 " threads", threads);
    }
    memset(made->records, 0xff, threads * made->capacity * sizeof *made->records);     /* touched, not only mapped */
    memset(made->rings, 0, threads * sizeof *made->rings);
    for (uint32_t i = 0; i < threads; i++)
        made->rings[i].records = made->records + i * made->capacity;
    *trace = made;
    return 0;
}

void zc_trace_destroy(struct zc_trace *trace)
{
    if (!trace)
        return;
    free(trace->records);
    free(trace->rings);
    free(trace);
}

/* --- recording ------------------------------------------------------------------------------------------------- */

/* Once a thread and trace. NULL: more threads record than the trace was made for. */
static struct ring *take_ring(struct zc_trace *trace)
{
    const unsigned index = atomic_fetch_add_explicit(&trace->taken, 1, memory_order_relaxed);
    mine.number = trace->number;
    mine.ring = index < trace->ring_count ? &trace->rings[index] : NULL;
    if (mine.ring)
        prctl(PR_GET_NAME, mine.ring->name);
    return mine.ring;
}

static uint32_t cut(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

void zc_trace_add(struct zc_trace *trace, uint32_t caller, enum zc_trace_stage stage, uint64_t begin_ns, uint64_t end_ns,
                  uint64_t request, uint64_t chunk, uint64_t bytes)
{
    struct ring *const ring = mine.number == trace->number ? mine.ring : take_ring(trace);
    if (!ring) {
        atomic_fetch_add_explicit(&trace->homeless, 1, memory_order_relaxed);
        return;
    }
    ring->records[ring->written++ % trace->capacity] = (struct zc_trace_record){
        .begin_ns = begin_ns, .request = request, .duration_ns = cut(end_ns - begin_ns), .chunk = (uint32_t)chunk,
        .bytes = cut(bytes), .caller = (uint16_t)caller, .stage = (uint8_t)stage,
    };
}

double zc_trace_cost_ns(void)
{
    enum { ROUNDS = 4096 };
    struct zc_trace *trace;
    struct zc_error err;
    if (zc_trace_create(1, ROUNDS, &trace, &err) < 0)
        return 0;
    zc_trace_add(trace, 0, ZC_TRACE_SUBMITTED, 0, 0, 0, 0, 0);     /* takes the ring */
    const uint64_t begin = zc_now_ns();
    for (uint64_t i = 0; i < ROUNDS; i++)
        zc_trace_add(trace, 0, ZC_TRACE_POSTED, zc_now_ns(), zc_now_ns(), i, 0, 0);
    const uint64_t end = zc_now_ns();
    zc_trace_destroy(trace);
    return (double)(end - begin) / ROUNDS;
}

/* --- what there is --------------------------------------------------------------------------------------------- */

static uint32_t used_rings(const struct zc_trace *trace)
{
    const unsigned taken = atomic_load(&trace->taken);
    return taken < trace->ring_count ? taken : trace->ring_count;
}

static uint64_t kept(const struct zc_trace *trace, const struct ring *ring)
{
    return ring->written < trace->capacity ? ring->written : trace->capacity;
}

void zc_trace_counts(const struct zc_trace *trace, struct zc_trace_counts *counts)
{
    *counts = (struct zc_trace_counts){.threads = used_rings(trace), .dropped = atomic_load(&trace->homeless)};
    for (uint32_t i = 0; i < counts->threads; i++) {
        counts->records += kept(trace, &trace->rings[i]);
        counts->dropped += trace->rings[i].written - kept(trace, &trace->rings[i]);
    }
}

/* --- the file -------------------------------------------------------------------------------------------------- */

struct writer {
    FILE *file;
    uint64_t start_ns;
    const char *separator;      /* before the next event */
};

/* Signed: what was submitted just before the window opened has its place before 0. */
static double microseconds(const struct writer *writer, uint64_t at_ns)
{
    return (double)(int64_t)(at_ns - writer->start_ns) / 1e3;
}

/* Everything of an event but its times; `track` is counted from 1. */
static void begin_event(struct writer *writer, const char *kind, const char *name, uint32_t track)
{
    fprintf(writer->file, "%s\n{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":%" PRIu32, writer->separator, kind, name, track);
    writer->separator = ",";
}

/* Names come from this program and from the option table, so that nothing in them needs escaping but what a shell may have set. */
static void write_name(struct writer *writer, const char *event, uint32_t track, const char *name)
{
    begin_event(writer, "M", event, track);
    fprintf(writer->file, ",\"args\":{\"name\":\"");
    for (; *name; name++)
        fputc(*name < ' ' || *name == '"' || *name == '\\' ? '?' : *name, writer->file);
    fprintf(writer->file, "\"}}");
}

static void write_details(struct writer *writer, const struct zc_trace_record *record)
{
    fprintf(writer->file, ",\"cat\":\"chunk\",\"args\":{\"caller\":%u,\"request\":%" PRIu64 ",\"chunk\":%" PRIu32 ",\"bytes\":%" PRIu32 "}}",
            record->caller, record->request, record->chunk, record->bytes);
}

/* A READ is in flight from its doorbell to its completion: a span of its own, because many overlap. */
static void write_flight(struct writer *writer, const struct zc_trace_record *record, uint32_t track)
{
    const bool begins = record->stage == ZC_TRACE_POSTED;
    if (!begins && record->stage != ZC_TRACE_COMPLETED)
        return;
    begin_event(writer, begins ? "b" : "e", "READ", track);
    fprintf(writer->file, ",\"cat\":\"read\",\"id\":\"%u.%" PRIu64 ".%" PRIu32 "\",\"ts\":%.3f}", record->caller, record->request,
            record->chunk, microseconds(writer, record->begin_ns));
}

static void write_record(struct writer *writer, const struct zc_trace_record *record, uint32_t track)
{
    const bool moment = record->stage == ZC_TRACE_SUBMITTED || record->stage == ZC_TRACE_COMPLETED ||
                        record->stage == ZC_TRACE_RECLAIMED;
    begin_event(writer, moment ? "i" : "X", zc_trace_stage_names[record->stage], track);
    if (moment)
        fprintf(writer->file, ",\"s\":\"t\",\"ts\":%.3f", microseconds(writer, record->begin_ns));
    else
        fprintf(writer->file, ",\"ts\":%.3f,\"dur\":%.3f", microseconds(writer, record->begin_ns), (double)record->duration_ns / 1e3);
    write_details(writer, record);
    write_flight(writer, record, track);
}

/* A thread works for one caller only; a ring that belongs to a thread has a record. */
static bool several_callers(const struct zc_trace *trace)
{
    for (uint32_t i = 0; i < used_rings(trace); i++)
        if (trace->rings[i].records[0].caller > 0)
            return true;
    return false;
}

static void write_all(const struct zc_trace *trace, const char *title, struct writer *writer)
{
    struct zc_trace_counts counts;
    zc_trace_counts(trace, &counts);
    fprintf(writer->file, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"records\":%" PRIu64 ",\"dropped\":%" PRIu64 "},\"traceEvents\":[",
            counts.records, counts.dropped);
    write_name(writer, "process_name", 0, title);
    for (uint32_t i = 0; i < counts.threads; i++) {
        const struct ring *const ring = &trace->rings[i];
        char name[NAME_MAX_BYTES + 32];
        snprintf(name, sizeof name, "%s, caller %u", ring->name, ring->records[0].caller);
        write_name(writer, "thread_name", i + 1, several_callers(trace) ? name : ring->name);
        for (uint64_t at = ring->written - kept(trace, ring); at < ring->written; at++)
            write_record(writer, &ring->records[at % trace->capacity], i + 1);
    }
    fprintf(writer->file, "\n]}\n");
}

int zc_trace_write(const struct zc_trace *trace, const char *path, const char *title, uint64_t start_ns, struct zc_error *err)
{
    struct writer writer = {.file = fopen(path, "we"), .start_ns = start_ns, .separator = ""};
    if (!writer.file)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, "logging", "the trace cannot be written to %s: %m", path);
    write_all(trace, title, &writer);
    int failed = ferror(writer.file) ? EIO : 0;
    if (fclose(writer.file) != 0)
        failed = errno;
    if (!failed)
        return 0;
    unlink(path);
    return zc_error_set(err, ZC_ERR_RESOURCE, -failed, "logging", "the trace cannot be written to %s: %s", path, strerror(failed));
}
