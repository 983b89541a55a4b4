/* Load: keeps a number of requests in flight for a time, each into its next user buffer from the next place of the peer's region,
 * and hands the finished ones to whoever counts. Every window of measure.c is one pass of this loop, so warm-up, latency,
 * throughput and cost are driven alike. One thread; nothing is allocated. */
#ifndef ZC_LOAD_H
#define ZC_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "pipeline.h"

struct zc_pass {
    /* What to do. */
    uint32_t depth;                 /* requests in flight */
    uint64_t warmup_ns, window_ns;  /* the window opens after the warm-up, without a pause in the load */
    uint64_t request_limit;         /* submit no more than this; 0: no limit */
    void (*opened)(struct zc_pass *pass);   /* once, when the window has opened; may be NULL */
    void (*before)(struct zc_pass *pass, struct zc_request *request);   /* just before it is submitted; may be NULL */
    /* For each request that became available inside the window, in the order of reaping; a negative errno ends the pass. */
    int (*finished)(struct zc_pass *pass, const struct zc_request *request);
    void *arg;
    /* What came of it. Valid after a cancelled pass too; then the window ends at the cancellation. */
    uint64_t start_ns, end_ns;      /* of the window (CLOCK_MONOTONIC): start < available <= end counts */
    uint64_t requests, bytes;       /* inside the window */
    uint64_t all_requests, all_bytes;   /* warm-up and what was in flight at the end included */
    bool open;                      /* the window was reached */
};

struct zc_load {
    struct zc_pipeline *pipeline;
    uint64_t size_bytes;            /* of a request */
    struct zc_layout layout;        /* of a user buffer */
    struct zc_piece *pieces;        /* layout.pieces a request of the pipeline; NULL: there is one only */
    uint8_t *buffers;               /* user buffers, one every layout.stride_bytes, buffer_count of them, at least depth */
    uint64_t buffer_count;
    uint64_t offset_step_bytes;     /* between the remote offsets of two requests; 0: a fixed offset */
    uint64_t offset_count;          /* places in the region */
    const atomic_bool *cancel;      /* NULL: none */
    const atomic_bool *stop;        /* the same for another reason */
    uint64_t tick_interval_ns;      /* between two calls of tick */
    void (*tick)(void *arg, uint64_t now_ns, uint64_t bytes_since_last);  /* NULL: none */
    void *tick_arg;
    bool discard;                   /* give a user buffer's pages back before each request; see zc_load_fresh() */
    bool consume;                   /* read each request's bytes once after it was reaped */
    bool time_stages;               /* add up discard_ns and consume_ns, and keep both out of the pipeline's stages */
    uint64_t discard_ns, consume_ns;
    uint64_t checksum;              /* of what was consumed, so that reading it cannot be left out */
    /* The loop's own. */
    uint64_t next_offset;
    uint64_t next_tick_ns, tick_bytes;
    uint64_t next_check_ns;         /* of the connection, while completions keep coming */
};

/* Fill size, buffers and offsets: buffer_count of them at `buffers`, offsets over a region of region_bytes. */
void zc_load_init(struct zc_load *load, struct zc_pipeline *pipeline, uint64_t size_bytes, void *buffers, uint64_t buffer_count,
                  uint64_t region_bytes, bool rotate);
/* Distance of user buffers and of offsets: whole cache lines, and whole pages from a page up, so that no two buffers share one. */
uint64_t zc_load_stride(uint64_t size_bytes, uint64_t page_bytes);
/* Another place in the region for each request from now on, or a fixed one. */
void zc_load_rotate(struct zc_load *load, uint64_t region_bytes, bool rotate);
/* Lay the buffers out otherwise. `pieces`: layout->pieces a request of the pipeline, borrowed for the load's life; for one piece NULL. */
void zc_load_lay_out(struct zc_load *load, const struct zc_layout *layout, struct zc_piece *pieces);
/* Discard a buffer's pages before each request: it becomes whole pages of page_bytes, whatever its size. */
void zc_load_fresh(struct zc_load *load, uint64_t page_bytes);

/* Run one pass to its end; every request is reaped unless it fails. 0, -ECANCELED, or what the pipeline or finished() said. */
int zc_load_run(struct zc_load *load, struct zc_pass *pass);

/* For zc_pipeline_params.idle: ticks while nothing completes. arg: struct zc_load. */
void zc_load_idle(void *arg, uint64_t now_ns);

#endif
