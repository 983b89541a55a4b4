/* A report of several results, runs and sweeps: one HTML page with plots, or tables for other programs. */
#ifndef CTL_REPORT_H
#define CTL_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cells.h"
#include "error.h"

struct report {
    json_t *documents;              /* array; borrowed */
    struct cells cells;             /* of them */
    struct series *series;          /* of the cells; see report_series() */
    size_t series_count;
};

/* What is one line in the plots over size: a strategy of a sweep, with the best of its options at each size, or the runs with one label. */
struct series {
    char title[160];
    const struct cell **cells;      /* `count`, ascending by size, one a size */
    size_t count;
    bool ceiling;                   /* ideal: neither copies nor registers */
};

/* Figures of `metric` in the order of their sizes; a size with several cells has its best one. 0, or -1 without memory. */
int report_series(struct report *report, enum metric metric);
void report_series_free(struct report *report);

/* Documents side by side have letters, "A"; the only one has none, "". */
struct text report_letter(const struct report *report, size_t index);

/* Plots: each writes its script, or returns false if there is nothing to show. */
bool report_plot_metric(FILE *script, struct report *report, enum metric metric);
bool report_plot_phases(FILE *script, const struct report *report);
bool report_plot_percentiles(FILE *script, const struct report *report);
bool report_plot_time(FILE *script, const struct report *report);

/* The stages of a request, in their order: name and member of `phases`. */
enum { REPORT_PHASES = 7 };
extern const char *const report_phases[REPORT_PHASES][2];
/* The percentiles of a run's latency: name and member. */
enum { REPORT_PERCENTILES = 8 };
extern const char *const report_percentiles[REPORT_PERCENTILES][2];

/* "copy up to 64 KiB, zero-copy from 128 KiB on", or why there is none. */
enum { REPORT_CROSSOVER_MAX = 400 };
void report_crossover_text(const json_t *crossover, char *text, size_t size);

/* The predicted crossover, the measured one, and what the prediction is made of. 0 rows: the sweep has no model. */
enum { REPORT_MODEL_ROWS = 7 };
struct report_row {
    const char *what;               /* static */
    char value[REPORT_CROSSOVER_MAX];
};
size_t report_model(const json_t *document, struct report_row rows[REPORT_MODEL_ROWS]);

/* The whole page. 0, or -1 with an error. */
int report_html(FILE *out, struct report *report, struct zc_error *err);
void report_csv(FILE *out, const struct report *report);
void report_markdown(FILE *out, const struct report *report);

#endif
