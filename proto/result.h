/* The result of a run as plain structs, filled by the engine and encoded by result_json.c. A figure that was not measured is
 * ZC_UNMEASURED (integers) or NAN (doubles) and becomes null, never 0. Units are in the names. */
#ifndef ZC_RESULT_H
#define ZC_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device_info.h"
#include "error.h"
#include "options.h"

enum { ZC_RESULT_SCHEMA_VERSION = 1, ZC_PATH_MAX = 4096, ZC_SERIES_INTERVAL_NS = 100000000 };

enum zc_run_state { ZC_RUN_DONE, ZC_RUN_FAILED, ZC_RUN_CANCELLED };

/* Percentiles with fewer than 10 / (1 - p) samples behind them are ZC_UNMEASURED. count 0: everything unmeasured. */
struct zc_latency {
    uint64_t count;
    uint64_t min_ns, p50_ns, p90_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns, max_ns;
    double mean_ns;
};

struct zc_throughput {
    bool measured;
    uint64_t bytes;             /* of requests that became available inside the window */
    uint64_t requests;
    uint64_t duration_ns;
    uint64_t *series_bytes;     /* bytes completed in each ZC_SERIES_INTERVAL_NS of the window; the last may be shorter.
                                   malloc'ed at set-up, freed by zc_result_destroy() */
    size_t series_length;
};

struct zc_cost {
    bool measured;              /* false: the event-driven pass did not run; all below unmeasured */
    uint64_t bytes, requests, duration_ns;  /* of that pass */
    uint64_t cpu_user_ns, cpu_system_ns;    /* of the run's threads (getrusage RUSAGE_THREAD) */
    uint64_t device_cpu_ns;     /* of the software device's thread in the same pass; ZC_UNMEASURED on hardware and rxe */
    uint64_t registrations;     /* ibv_reg_mr calls for requests in the throughput (or else latency) window */
    uint64_t allocations;       /* allocator calls of the run's threads in that window; ZC_UNMEASURED if not counted */
    uint64_t registering_allocations;   /* and those within ibv_reg_mr and ibv_dereg_mr, which are not among them */
    uint64_t cache_hits, cache_misses, cache_evictions;     /* of a registration cache in that window; ZC_UNMEASURED: none */
};

/* Mean nanoseconds a request, from a pass of its own in which every stage is timed. NAN: not measured or no such stage. */
struct zc_phases {
    uint64_t requests;
    double register_ns, post_ns, wait_ns, copy_ns, deregister_ns;
    double discard_ns, consume_ns;      /* before submit (--buffers fresh), after reclaimed (--consume) */
};

/* What --logging recorded. */
struct zc_trace_summary {
    bool made;
    bool latency;               /* of the latency window, because there was no throughput window */
    uint64_t records, dropped;
    uint32_t threads;
    double record_ns;           /* what one costs the thread that makes it; NAN: unknown */
    char path[ZC_PATH_MAX];     /* "": not written */
};

struct zc_validation {
    int mode;                   /* enum zc_validate */
    uint64_t requests, bytes;   /* checked */
    bool failed;
    uint64_t first_bad_offset;  /* absolute offset in the peer's region; ZC_UNMEASURED unless failed */
    uint8_t expected, found;
};

/* What the run was measured on. */
struct zc_environment {
    char host[ZC_NAME_MAX], kernel[128], cpu[128], zcrdma_version[ZC_NAME_MAX];
    uint32_t cpus_online, numa_nodes;
    uint64_t memory_bytes, memory_free_bytes, page_size_bytes, llc_bytes;   /* llc: last-level cache, ZC_UNMEASURED if unknown */
    char transparent_hugepage[ZC_NAME_MAX]; /* "always", "madvise", "never" */
    uint64_t memlock_limit_bytes;           /* RLIMIT_MEMLOCK; UINT64_MAX is unlimited */
    char fork_safe[ZC_NAME_MAX], hugepages_safe[ZC_NAME_MAX];   /* RDMAV_FORK_SAFE, RDMAV_HUGEPAGES_SAFE; "" unset */
    struct zc_device_info device;
};

/* What the options came to. */
struct zc_terms {
    uint64_t inflight;                  /* requests kept in flight in the throughput window */
    uint64_t footprint_bytes, buffers;  /* user buffers cycled through, all together, and how many */
    uint64_t page_bytes;                /* of the kind asked for; huge_page_bytes says how far transparent ones came */
    uint64_t huge_page_bytes;           /* of the user buffers, as obtained; ZC_UNMEASURED if unknown */
    uint64_t chunk_bytes, chunks;       /* of one request */
    uint64_t staging_bytes, staging_slots;
    uint64_t staging_huge_page_bytes;   /* of the staging memory, as obtained, rounded up to pages; ZC_UNMEASURED if unknown */
    uint64_t memory_max_bytes;          /* after lowering to half of the free memory */
    uint32_t threads;                   /* that the strategy has beside the run's own */
    int wait;                           /* enum zc_wait, in force: event where busy threads outnumber cores; -1 unknown */
    enum zc_family post, poll;          /* in use; AUTO: unknown */
    uint32_t qps, outstanding_reads;    /* READs in flight a QP, negotiated */
    uint64_t max_read_bytes;            /* of one READ */
    int memory_numa_node, thread_numa_node; /* -1: not bound */
    int relaxed_ordering;               /* 1: every MR for data was registered with it; -1: the run ended before */
    char placement[160];                /* the same in words, with the reason; "" if the run ended before */
};

struct zc_peer_info {
    char host[ZC_PEER_MAX];
    char address[ZC_NAME_MAX];
    uint16_t port;
    uint64_t region_bytes;              /* 0: never learned */
};

struct zc_result {
    char id[ZC_ID_MAX];
    enum zc_run_state state;
    struct zc_error error;              /* kind ZC_ERR_NONE unless failed or cancelled */
    struct zc_run_options config;
    uint64_t owner_uid;                 /* of the user who started it; ZC_UNMEASURED: unknown */
    struct zc_peer_info peer;
    int64_t started_unix_ns, finished_unix_ns;  /* CLOCK_REALTIME; 0: never */
    struct zc_environment environment;
    struct zc_terms terms;
    struct zc_latency available, reclaimed;
    struct zc_throughput throughput;
    struct zc_cost cost;
    struct zc_phases phases;
    struct zc_trace_summary trace;
    struct zc_validation validation;
};

/* Everything unmeasured; no allocation. */
void zc_result_init(struct zc_result *result);
void zc_result_destroy(struct zc_result *result);
void zc_environment_init(struct zc_environment *environment);   /* nothing known */

extern const char *const zc_run_state_names[];      /* "done", "failed", "cancelled" */

/* Where a run is, written by its thread and read by any other (all fields atomic; a torn pair costs a flicker only). */
enum zc_phase { ZC_PHASE_QUEUED, ZC_PHASE_CONNECT, ZC_PHASE_SETUP, ZC_PHASE_VALIDATE, ZC_PHASE_WARMUP, ZC_PHASE_LATENCY,
                ZC_PHASE_THROUGHPUT, ZC_PHASE_PHASES, ZC_PHASE_COST, ZC_PHASE_END };
extern const char *const zc_phase_names[];

#endif
