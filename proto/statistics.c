/* See statistics.h. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static size_t keep_finite(double *values, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            values[kept++] = values[i];
    return kept;
}

/* How many values may be left out at each end: the largest k with 1 - 2 P(B < k) >= ZC_CONFIDENCE, where B of n values lie below the
 * median; 0: none at all covers enough. */
static size_t interval_rank(size_t n)
{
    double term = pow(0.5, (double)n), below = 0;
    size_t rank = 0;
    for (size_t k = 1; k <= n / 2; k++) {
        below += term;      /* P(B < k) */
        if (1 - 2 * below < ZC_CONFIDENCE)
            break;
        rank = k;
        term *= (double)(n - k + 1) / (double)k;
    }
    return rank;
}

void zc_estimate_make(double *values, size_t count, struct zc_estimate *estimate)
{
    const size_t n = keep_finite(values, count);
    *estimate = (struct zc_estimate){ .trials = n, .median = NAN, .low = NAN, .high = NAN };
    if (n == 0)
        return;
    qsort(values, n, sizeof values[0], ascending);
    estimate->median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    const size_t rank = interval_rank(n);
    if (rank == 0)
        return;
    estimate->low = values[rank - 1];
    estimate->high = values[n - rank];
}

double zc_estimate_precision(const struct zc_estimate *estimate)
{
    if (!isfinite(estimate->low) || estimate->median == 0)
        return NAN;
    return (estimate->high - estimate->low) / 2 / fabs(estimate->median);
}

int zc_estimate_compare(const struct zc_estimate *a, const struct zc_estimate *b)
{
    if (!isfinite(a->low) || !isfinite(b->low))
        return 0;
    return (a->low > b->high) - (a->high < b->low);
}
