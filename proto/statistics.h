/* What repeated trials say: the median and an interval for it that supposes nothing about the distribution. Plain C; any thread. */
#ifndef ZC_STATISTICS_H
#define ZC_STATISTICS_H

#include <stddef.h>

enum { ZC_INTERVAL_TRIALS_MIN = 6 };    /* below that no interval of order statistics reaches ZC_CONFIDENCE */
#define ZC_CONFIDENCE 0.95              /* at least, of every interval that is stated */

struct zc_estimate {
    size_t trials;          /* finite values behind it */
    double median;          /* NAN: there are none */
    double low, high;       /* of the median, at least ZC_CONFIDENCE; NAN: fewer than ZC_INTERVAL_TRIALS_MIN trials */
};

/* Of `count` values in any order; those that are not finite were not measured and do not count. Sorts `values` in place. The interval
 * lies between the k-th smallest and the k-th largest value, with the largest k whose coverage, by the binomial distribution of the
 * number of values below the median, is ZC_CONFIDENCE. */
void zc_estimate_make(double *values, size_t count, struct zc_estimate *estimate);

/* Half of the interval's width as a share of the median; NAN if there is no interval or the median is 0. */
double zc_estimate_precision(const struct zc_estimate *estimate);

/* 1: a is larger than b, -1: smaller, both beyond their intervals; 0: the intervals overlap or one is missing. */
int zc_estimate_compare(const struct zc_estimate *a, const struct zc_estimate *b);

#endif
