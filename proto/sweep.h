/* A sweep: one run for each combination of strategies, sizes and other options, repeated, and what follows from it. Plain structs; the
 * engine (src/sweep.c) fills in trials, sweep_json.c encodes. Any thread, one at a time. */
#ifndef ZC_SWEEP_H
#define ZC_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crossover.h"
#include "error.h"
#include "options.h"
#include "probe.h"
#include "result.h"
#include "statistics.h"

enum {
    ZC_SWEEP_SCHEMA_VERSION = 1,
    ZC_AXIS_VALUES_MAX = 64,
    ZC_AXES_MAX = 8,
    ZC_SWEEP_CELLS_MAX = 768,       /* a document is one message of at most 1 MiB */
    ZC_SWEEP_TRIALS_MAX = 24,       /* of a cell */
};

/* One option with several values. */
struct zc_axis {
    const struct zc_option *option;         /* of type SIZE, COUNT or CHOICE */
    uint32_t count;
    uint64_t values[ZC_AXIS_VALUES_MAX];    /* bytes, counts, indices of choices */
};

struct zc_sweep_options {
    struct zc_run_options base;     /* what is the same for every cell */
    uint64_t given;                 /* rows of the option table that base and the axes were given */
    uint32_t strategies;            /* a bit per zc_strategy_id */
    struct zc_axis sizes;           /* ascending */
    struct zc_axis axes[ZC_AXES_MAX];
    uint32_t axis_count;
    uint64_t trials;                /* wanted of each cell */
    double budget_s;                /* for everything */
    double precision;               /* half of an interval as a share of its median: no more trials below it */
};

/* What is measured of a cell, each by its own interval. */
enum zc_metric { ZC_METRIC_THROUGHPUT, ZC_METRIC_P50, ZC_METRIC_P99, ZC_METRIC_CPU, ZC_METRIC_COUNT };
struct zc_metric_info {
    const char *name;               /* "gib_per_s", "p50_ns", "p99_ns", "cpu_s_per_gib" */
    const char *words;              /* "throughput", "median latency", ... */
    bool more_is_better;
};
extern const struct zc_metric_info zc_sweep_metrics[ZC_METRIC_COUNT];

struct zc_trial {
    double figures[ZC_METRIC_COUNT];    /* NAN: not measured */
};

struct zc_cell {
    struct zc_run_options options;  /* complete and checked, but for the windows */
    bool added;                     /* not asked for: bisection of a crossover */
    bool contested;                 /* could not be told from its rival: wants all trials there are; the engine's */
    struct zc_error error;          /* why it has no (more) trials; kind ZC_ERR_NONE: it has */
    uint64_t inflight, registrations_per_s;     /* of the last trial; 0 unknown */
    struct zc_phases phases;        /* of the first trial */
    double window_s;                /* of its next trial; the engine's */
    double trial_s;                 /* what a trial takes, as measured; NAN: unknown */
    uint32_t trial_count;
    struct zc_trial trials[ZC_SWEEP_TRIALS_MAX];
    struct zc_estimate estimates[ZC_METRIC_COUNT];  /* of the trials; see zc_sweep_estimate() */
};

/* What the parts cost by themselves, from a quick probe, and the crossover that they predict. NAN: not measured. */
struct zc_model {
    bool made;
    double register_base_s, register_per_page_s, worst_residual;    /* register and deregister: base + per_page * pages */
    uint64_t page_bytes;
    double copy_gib_per_s, read_gib_per_s;      /* of 1 MiB; READs one after the other */
    double read_s;                              /* of 4 KiB, alone */
    double crossover_bytes;                     /* NAN: there is none within the sizes of the probe */
};

struct zc_sweep {
    char id[ZC_ID_MAX];
    uint64_t owner_uid;             /* of the user who started it; ZC_UNMEASURED: unknown */
    enum zc_run_state state;
    struct zc_error error;
    struct zc_sweep_options options;
    struct zc_peer_info peer;
    struct zc_environment environment;
    int64_t started_unix_ns, finished_unix_ns;
    double elapsed_s;               /* measuring, earlier parts of a resumed sweep included */
    bool complete;                  /* every cell has its trials; false: the budget ended first, or it was interrupted */
    uint64_t seed;                  /* of the order of the trials */
    struct zc_axis clipped;         /* sizes that were asked for and are beyond the peer's region */
    struct zc_model model;
    struct zc_cell *cells;          /* malloc'ed; NULL: not planned yet */
    uint32_t cell_count;
};

void zc_sweep_options_init(struct zc_sweep_options *options);
/* "4K..256M", "4K..256M:2" (steps an octave), "64K,1M" for sizes, "1,2,4" for the rest; also one value. Errors name the field. */
int zc_sweep_sizes_parse(const char *text, uint64_t steps, struct zc_axis *sizes, struct zc_error *err);
int zc_axis_parse(const struct zc_option *option, const char *text, struct zc_axis *axis, struct zc_error *err);
/* "all", "copy_blocking,naive_blocking": bits. */
int zc_sweep_strategies_parse(const char *text, uint32_t *strategies, struct zc_error *err);
/* "5m", "90s", "1h", "300" -> seconds; "2%", "0.02" -> a share. 0 or -EINVAL. */
int zc_duration_parse(const char *text, double *seconds);
int zc_share_parse(const char *text, double *share);
/* Put one option's text where it belongs: base, axis, sizes, strategies, or the sweep's own (steps is given apart). ZC_ERR_INVALID names
 * the field. */
int zc_sweep_option_parse(struct zc_sweep_options *options, const char *name, const char *text, uint64_t steps, struct zc_error *err);
/* Is this row of the option table one that a sweep takes? The windows are its own. */
bool zc_sweep_takes(const struct zc_option *option);
bool zc_option_is_axis(const struct zc_option *option);    /* may have several values */

/* sweep->cells from sweep->options: every combination that makes sense. An option that a strategy does not take multiplies nothing, and
 * depth multiplies no strategy with one request in flight. ZC_ERR_INVALID: too many (the message counts them), none. */
int zc_sweep_plan(struct zc_sweep *sweep, struct zc_error *err);
/* One more cell: that of `like` with another size. The index, or -1: full or no memory, or the one that exists. */
int zc_sweep_add_cell(struct zc_sweep *sweep, const struct zc_cell *like, uint64_t size_bytes);
/* Bring the estimates of a cell up to its trials. */
void zc_sweep_estimate(struct zc_cell *cell);
void zc_model_make(const struct zc_probe *probe, struct zc_model *model);
void zc_sweep_init(struct zc_sweep *sweep);
void zc_sweep_destroy(struct zc_sweep *sweep);

/* The pairs whose crossovers matter: best copy against best zero-copy, and each strategy against the next one in the table. A contender
 * is a set of strategies: at each size, the best of its cells by the metric. */
struct zc_contender {
    uint32_t strategies;
    char name[48];
};
struct zc_pair {
    struct zc_contender a, b;
};
enum { ZC_PAIRS_MAX = 16 };
size_t zc_sweep_pairs(const struct zc_sweep *sweep, struct zc_pair pairs[ZC_PAIRS_MAX]);
/* The contender's best cell at a size, NULL if none was measured. */
const struct zc_cell *zc_sweep_best(const struct zc_sweep *sweep, uint32_t strategies, uint64_t size_bytes, enum zc_metric metric);
/* Where the faster one of a pair changes. */
void zc_sweep_crossover(const struct zc_sweep *sweep, const struct zc_pair *pair, enum zc_metric metric, struct zc_crossover *crossover);
/* From which size on to register, for a strategy that does one or the other: the upper end of the one crossover of throughput between
 * best copy and best zero-copy, which is the smallest size that was measured and at which registering has won beyond the noise. Without
 * such a crossover ZC_ERR_INVALID with field "threshold" says what the sweep found instead. */
int zc_sweep_threshold(const struct zc_sweep *sweep, uint64_t *threshold_bytes, struct zc_error *err);

#endif
