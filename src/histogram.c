/* Log-linear histogram. Values below 2^SUB_BITS have a bucket each; above, every power of two is cut into 2^SUB_BITS buckets of
 * equal width, so a bucket's midpoint is off by at most half a width, 2^-(SUB_BITS + 1) = 0.8 % of the value. */
#include "histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUB_BITS = 6,
    SUB_COUNT = 1 << SUB_BITS,
    TOP_BITS = 42,              /* 2^42 ns = 73 minutes; longer ones share the last bucket, and the maximum stays exact */
    BUCKETS = (TOP_BITS - SUB_BITS + 1) * SUB_COUNT,
};

struct zc_histogram {
    uint64_t count, sum, min, max;
    uint64_t buckets[BUCKETS];
};

static inline uint32_t bucket_of(uint64_t value)
{
    if (value < SUB_COUNT)
        return (uint32_t)value;
    const uint32_t octave = 63 - (uint32_t)__builtin_clzll(value);
    if (octave >= TOP_BITS)
        return BUCKETS - 1;
    const uint32_t shift = octave - SUB_BITS;
    /* The leading one of value >> shift is worth SUB_COUNT: it carries the octave's first bucket in. */
    return shift * SUB_COUNT + (uint32_t)(value >> shift);
}

static uint64_t bucket_midpoint(uint32_t bucket)
{
    if (bucket < SUB_COUNT)
        return bucket;
    const uint32_t shift = bucket / SUB_COUNT - 1;
    const uint64_t low = (uint64_t)(bucket % SUB_COUNT + SUB_COUNT) << shift;
    return low + ((UINT64_C(1) << shift) >> 1);
}

struct zc_histogram *zc_histogram_create(void)
{
    struct zc_histogram *histogram = malloc(sizeof *histogram);
    if (histogram)
        zc_histogram_reset(histogram);  /* writes every page: recording never faults */
    return histogram;
}

void zc_histogram_destroy(struct zc_histogram *histogram)
{
    free(histogram);
}

void zc_histogram_reset(struct zc_histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
    histogram->min = UINT64_MAX;
}

void zc_histogram_record(struct zc_histogram *histogram, uint64_t value_ns)
{
    histogram->count++;
    histogram->sum += value_ns;
    if (value_ns < histogram->min)
        histogram->min = value_ns;
    if (value_ns > histogram->max)
        histogram->max = value_ns;
    histogram->buckets[bucket_of(value_ns)]++;
}

void zc_histogram_add(struct zc_histogram *histogram, const struct zc_histogram *other)
{
    histogram->count += other->count;
    histogram->sum += other->sum;
    if (other->min < histogram->min)
        histogram->min = other->min;
    if (other->max > histogram->max)
        histogram->max = other->max;
    for (uint32_t i = 0; i < BUCKETS; i++)
        histogram->buckets[i] += other->buckets[i];
}

static uint64_t at_rank(const struct zc_histogram *histogram, uint64_t rank)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen < rank)
            continue;
        if (i == BUCKETS - 1)
            return histogram->max;
        const uint64_t value = bucket_midpoint(i);
        if (value < histogram->min)
            return histogram->min;
        return value > histogram->max ? histogram->max : value;
    }
    return histogram->max;
}

uint64_t zc_histogram_quantile(const struct zc_histogram *histogram, double p)
{
    if (histogram->count == 0)
        return ZC_UNMEASURED;
    const double exact = ceil(p * (double)histogram->count);
    uint64_t rank = exact < 1 ? 1 : (uint64_t)exact;
    if (rank >= histogram->count)
        return histogram->max;
    return at_rank(histogram, rank);
}

/* A percentile needs ten samples beyond it to mean anything: count >= 10 / (1 - p), in whole numbers. */
static uint64_t supported(const struct zc_histogram *histogram, double p, uint64_t samples_needed)
{
    return histogram->count < samples_needed ? ZC_UNMEASURED : zc_histogram_quantile(histogram, p);
}

void zc_histogram_summarise(const struct zc_histogram *histogram, struct zc_latency *latency)
{
    const bool any = histogram->count > 0;
    *latency = (struct zc_latency){
        .count = histogram->count,
        .min_ns = any ? histogram->min : ZC_UNMEASURED,
        .p50_ns = supported(histogram, 0.50, 20),
        .p90_ns = supported(histogram, 0.90, 100),
        .p95_ns = supported(histogram, 0.95, 200),
        .p99_ns = supported(histogram, 0.99, 1000),
        .p99_9_ns = supported(histogram, 0.999, 10000),
        .p99_99_ns = supported(histogram, 0.9999, 100000),
        .max_ns = any ? histogram->max : ZC_UNMEASURED,
        .mean_ns = any ? (double)histogram->sum / (double)histogram->count : NAN,
    };
}
