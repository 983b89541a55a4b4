/* The size at which the better one of two changes, from their estimates at several sizes - or why there is none. Plain C; any thread. */
#ifndef ZC_CROSSOVER_H
#define ZC_CROSSOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "statistics.h"

enum { ZC_CROSSINGS_MAX = 4 };

/* Both at one size. */
struct zc_contest {
    uint64_t size_bytes;
    struct zc_estimate a, b;
};

enum zc_crossover_kind {
    ZC_CROSSOVER_FOUND,     /* the better one changes, once or more */
    ZC_CROSSOVER_NONE,      /* one is better wherever a difference can be told */
    ZC_CROSSOVER_NOISY,     /* no size tells them apart */
    ZC_CROSSOVER_UNMEASURED,    /* no size has an interval of both */
};
extern const char *const zc_crossover_kind_names[];     /* "found", "none", "noisy", "unmeasured" */

/* It lies between two sizes: at the lower one, `below` wins (0: a, 1: b), at the higher one the other. */
struct zc_crossing {
    uint64_t low_bytes, high_bytes;
    int below;
};

struct zc_crossover {
    enum zc_crossover_kind kind;
    int winner;             /* of kind NONE: 0 a, 1 b; else -1 */
    size_t sizes, undecided;    /* that both were measured at; and where their intervals overlap */
    size_t count;           /* of crossings, ascending; more than ZC_CROSSINGS_MAX are too noisy to tell */
    struct zc_crossing crossings[ZC_CROSSINGS_MAX];
};

/* `contests` ascending by size. Only differences beyond both intervals decide; sizes that do not decide widen the range. */
void zc_crossover_find(const struct zc_contest *contests, size_t count, bool more_is_better, struct zc_crossover *crossover);

#endif
