/* A log-linear histogram of nanoseconds: relative error at most 1 %, fixed size, no allocation on recording. One writer.
 * Smallest, largest and sum are exact. */
#ifndef ZC_HISTOGRAM_H
#define ZC_HISTOGRAM_H

#include <stdint.h>

#include "result.h"

struct zc_histogram;

struct zc_histogram *zc_histogram_create(void);     /* NULL without memory */
void zc_histogram_destroy(struct zc_histogram *histogram);
void zc_histogram_reset(struct zc_histogram *histogram);
void zc_histogram_record(struct zc_histogram *histogram, uint64_t value_ns);
/* Add what another one has recorded. */
void zc_histogram_add(struct zc_histogram *histogram, const struct zc_histogram *other);
/* Nearest-rank quantile, 0 < p <= 1: the bucket's midpoint clamped to [min, max], the last rank the exact maximum;
 * ZC_UNMEASURED when empty. */
uint64_t zc_histogram_quantile(const struct zc_histogram *histogram, double p);
/* Everything that a result says, null rule included. */
void zc_histogram_summarise(const struct zc_histogram *histogram, struct zc_latency *latency);

#endif
