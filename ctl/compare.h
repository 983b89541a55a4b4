/* Two sides of results against each other: which cells are better, worse, or not to be told apart. No I/O. */
#ifndef CTL_COMPARE_H
#define CTL_COMPARE_H

#include <jansson.h>

#include "cells.h"

enum verdict {
    VERDICT_NOISE,      /* the intervals overlap */
    VERDICT_BETTER, VERDICT_WORSE,  /* b than a, and the intervals do not overlap */
    VERDICT_UNKNOWN,    /* a side has too few trials for an interval, or was not measured */
};
extern const char *const verdict_names[];       /* "within noise", "better", "worse", "unknown" */

struct difference {
    double change;      /* of the median, as a share of a's; NAN: unknown */
    double low, high;   /* the change lies between them, if both medians lie in their intervals; NAN: no interval */
    enum verdict verdict;
};
struct difference compare_estimates(const struct zc_estimate *a, const struct zc_estimate *b, bool more_is_better);

/* The comparison as JSON, a new reference, NULL without memory: documents before `split` are side a, the others side b. Cells are
 * matched by label and size; a side's documents with the same cell are its trials. The only cells of both sides are matched whatever
 * they are called. "failed": a figure is worse by more than `fail_over` (a share). */
json_t *compare_documents(const json_t *documents, size_t split, double fail_over);

#endif
