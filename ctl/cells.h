/* What was measured, in one form for runs and sweeps: a cell is a strategy with its options at one size, and has trials. A run is a cell
 * with one trial. For reports and comparisons. */
#ifndef CTL_CELLS_H
#define CTL_CELLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "format.h"
#include "statistics.h"

enum metric { METRIC_THROUGHPUT, METRIC_P50, METRIC_P99, METRIC_CPU, METRICS };

struct metric_info {
    const char *name;               /* in documents of sweeps: "gib_per_s" */
    const char *in_run;             /* dotted path in documents of runs */
    const char *words;              /* "throughput" */
    const char *unit;               /* of the plain number: "GiB/s", "ns" */
    bool more_is_better;
};
extern const struct metric_info metric_infos[METRICS];

/* With its unit where people expect one: "1.23", "45.6 us". */
struct text metric_text(enum metric metric, double value);

struct cell {
    const json_t *document;         /* where it comes from; borrowed */
    size_t index;                   /* of the document among those given */
    char strategy[32];
    char label[128];                /* the strategy and those options that are not the same everywhere: "copy_blocking, qps 4" */
    double size_bytes;
    double *trials[METRICS];        /* `trial_count` each, NAN: not measured */
    size_t trial_count;
    struct zc_estimate estimates[METRICS];
    const json_t *phases;           /* borrowed; NULL: none */
    const char *error;              /* why it has no figures; borrowed, NULL: it has */
};

struct cells {
    struct cell *list;
    size_t count;
};

/* Of an array of documents, which must stay. Options of runs count as not the same if they differ among them, options of sweeps if they
 * were given several values. False without memory. */
bool cells_make(const json_t *documents, struct cells *cells);
/* Cells with the same label and size become one, with the trials of all of them. */
void cells_merge(struct cells *cells);
void cells_free(struct cells *cells);

#endif
