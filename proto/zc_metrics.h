/* The daemon's counters as metrics. Target zc_codec; no I/O. */
#ifndef ZC_METRICS_H
#define ZC_METRICS_H

#include <jansson.h>

enum zc_metrics_format {
    ZC_METRICS_OPENMETRICS,     /* https://openmetrics.io, with its # EOF */
    ZC_METRICS_PROMETHEUS,      /* the text format 0.0.4 that node_exporter's textfile collector reads: a counter's family has its
                                   _total in its name */
};

/* `stats`: the answer to the control method of that name. What it does not have, or has as null, is left out. Zero-terminated;
 * free() it. NULL without memory. */
char *zc_metrics(const json_t *stats, enum zc_metrics_format format);

#endif
