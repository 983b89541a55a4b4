/* See crossover.h. */
#include "crossover.h"

#include <math.h>

const char *const zc_crossover_kind_names[] = {
    [ZC_CROSSOVER_FOUND] = "found", [ZC_CROSSOVER_NONE] = "none", [ZC_CROSSOVER_NOISY] = "noisy",
    [ZC_CROSSOVER_UNMEASURED] = "unmeasured", NULL,
};

/* 0: a wins, 1: b wins, -1: cannot be told. */
static int winner_of(const struct zc_contest *contest, bool more_is_better)
{
    const int sign = zc_estimate_compare(&contest->a, &contest->b);
    if (sign == 0)
        return -1;
    return (sign > 0) == more_is_better ? 0 : 1;
}

static bool has_intervals(const struct zc_contest *contest)
{
    return isfinite(contest->a.low) && isfinite(contest->b.low);
}

/* A crossing between the last size that decided and this one. False: there is no room for it. */
static bool add_crossing(struct zc_crossover *crossover, uint64_t low_bytes, uint64_t high_bytes, int below)
{
    if (crossover->count == ZC_CROSSINGS_MAX)
        return false;
    crossover->crossings[crossover->count++] = (struct zc_crossing){ low_bytes, high_bytes, below };
    return true;
}

void zc_crossover_find(const struct zc_contest *contests, size_t count, bool more_is_better, struct zc_crossover *crossover)
{
    uint64_t decided_bytes = 0;
    int before = -1;
    *crossover = (struct zc_crossover){ .kind = ZC_CROSSOVER_UNMEASURED, .winner = -1 };
    for (size_t i = 0; i < count; i++) {
        if (!has_intervals(&contests[i]))
            continue;
        crossover->sizes++;
        const int winner = winner_of(&contests[i], more_is_better);
        if (winner < 0) {
            crossover->undecided++;
            continue;
        }
        if (before >= 0 && winner != before && !add_crossing(crossover, decided_bytes, contests[i].size_bytes, before)) {
            crossover->count = 0;
            crossover->kind = ZC_CROSSOVER_NOISY;
            return;
        }
        before = winner;
        decided_bytes = contests[i].size_bytes;
    }
    if (crossover->sizes == 0)
        return;
    crossover->kind = crossover->count > 0 ? ZC_CROSSOVER_FOUND : before >= 0 ? ZC_CROSSOVER_NONE : ZC_CROSSOVER_NOISY;
    crossover->winner = crossover->kind == ZC_CROSSOVER_NONE ? before : -1;
}
