/* What happened to each chunk, and when: one record a stage, in rings that are sized at set-up, one a thread and without locks. After
 * the window they become a file that trace viewers open (the Chrome trace event format, which Perfetto reads, too): a track a
 * thread. Off, it costs a load and a branch a stage; on, about the clock readings that it needs, see zc_trace_cost_ns(). */
#ifndef ZC_TRACE_H
#define ZC_TRACE_H

#include <stdint.h>

#include "error.h"

/* In the order in which a chunk comes by them. REGISTERED, POSTED, COPIED and DEREGISTERED take time; the others are moments. */
enum zc_trace_stage {
    ZC_TRACE_SUBMITTED,         /* a request, not a chunk */
    ZC_TRACE_REGISTERED,
    ZC_TRACE_POSTED,            /* the doorbell that its READs went out with */
    ZC_TRACE_COMPLETED,         /* the last of its READs, as polled */
    ZC_TRACE_COPIED,
    ZC_TRACE_DEREGISTERED,
    ZC_TRACE_RECLAIMED,         /* a request, not a chunk */
    ZC_TRACE_STAGE_COUNT,
};
extern const char *const zc_trace_stage_names[];    /* "submitted", ... */

struct zc_trace_record {
    uint64_t begin_ns;          /* CLOCK_MONOTONIC */
    uint64_t request;           /* of a caller, counted from 0 in the order of submission */
    uint32_t duration_ns;       /* 0: a moment; longer than 4 s is cut */
    uint32_t chunk;             /* of the request, from 0 */
    uint32_t bytes;             /* of the chunk or request; more than 4 GiB is cut */
    uint16_t caller;            /* whose request, from 0 */
    uint8_t stage;              /* enum zc_trace_stage */
    uint8_t reserved;
};
_Static_assert(sizeof(struct zc_trace_record) == 32, "two a cache line");

struct zc_trace;

struct zc_trace_counts {
    uint64_t records;           /* that are kept */
    uint64_t dropped;           /* overwritten by later ones of the same thread, or of a thread beyond `threads` */
    uint32_t threads;           /* that recorded something */
};

/* Room for `records` altogether, split evenly over `threads`; every page is touched. ZC_ERR_RESOURCE. */
int zc_trace_create(uint32_t threads, uint64_t records, struct zc_trace **trace, struct zc_error *err);
void zc_trace_destroy(struct zc_trace *trace);      /* NULL is allowed */

/* Append to the calling thread's ring, which becomes its own with the first record. Any thread, several at once; never blocks, never
 * allocates. end_ns at least begin_ns. */
void zc_trace_add(struct zc_trace *trace, uint32_t caller, enum zc_trace_stage stage, uint64_t begin_ns, uint64_t end_ns,
                  uint64_t request, uint64_t chunk, uint64_t bytes);

/* The rest is for when no thread records any more. */
void zc_trace_counts(const struct zc_trace *trace, struct zc_trace_counts *counts);
/* What a record costs here and now, the clock included, measured in the calling thread's own time. */
double zc_trace_cost_ns(void);
/* Write the file; times count from start_ns. `title` names the process track. ZC_ERR_RESOURCE with the path in its words; then there
 * is no file. */
int zc_trace_write(const struct zc_trace *trace, const char *path, const char *title, uint64_t start_ns, struct zc_error *err);

#endif
