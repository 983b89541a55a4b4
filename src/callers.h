/* --threads N: one run made of N independent callers, each with a thread, a connection, a completion queue, buffers and a pipeline of
 * its own, so that what they share - the device, its registrations, the memory bus - is contended for. They begin each step
 * together; their figures are merged afterwards. Private to src/; called by measure.c. */
#ifndef ZC_CALLERS_H
#define ZC_CALLERS_H

#include "measure_private.h"

struct zc_callers;

/* The callers of a run, 1.. of them. The first is the calling thread's and reports progress. ZC_ERR_RESOURCE. `params` is borrowed. */
int zc_callers_create(const struct zc_measure_params *params, struct zc_result *result, struct zc_callers **callers);
void zc_callers_destroy(struct zc_callers *callers);    /* NULL is allowed */
struct zc_run *zc_callers_first(struct zc_callers *callers);

/* steps() in the calling thread for the first and in a new thread for each other; joined before it returns. 0, or what the one that
 * failed first returned, whose error is the result's then. Merges what was measured into the result. */
int zc_callers_run(struct zc_callers *callers, int (*steps)(struct zc_run *run));

/* Wait until all have come here. -ECANCELED: one has failed, and it makes no sense to go on. Any caller, between two steps. */
int zc_callers_meet(struct zc_callers *callers);
uint32_t zc_callers_count(const struct zc_callers *callers);

/* Add the figures of one caller to those of another: counts are summed, times of a request averaged (histograms apart). */
void zc_callers_merge(struct zc_result *into, const struct zc_result *from);

#endif
