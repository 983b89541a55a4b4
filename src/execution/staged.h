/* What the executions with threads have in common: the owner cuts, posts and collects, pools of threads carry out the long stages -
 * a registration, a copy, a deregistration - and whatever is short stays with the owner. They differ in which pools there are and in
 * how the owner waits. Private to execution/. */
#ifndef ZC_STAGED_H
#define ZC_STAGED_H

#include "execution/workers.h"
#include "pipeline_private.h"

struct zc_staged {
    struct zc_workers *before, *after;  /* who carries out before() and after(); the same pool perhaps; NULL: the owner */
    struct zc_alarm alarm;
};

/* The threads that pipeline->hands wants. Sets pipeline->execution, alarm and always_sleeps. `staged` is zeroed memory from malloc(3),
 * perhaps the beginning of something larger, and belongs to the pipeline from here on. */
int zc_staged_create(struct zc_pipeline *pipeline, struct zc_staged *staged, struct zc_error *err);
/* Join them and free it; after a failed create too. */
void zc_staged_destroy(struct zc_pipeline *pipeline);

/* Submit and reap of zc_execution_ops; wait() returns 0 when something has come, or a negative errno. */
int zc_staged_submit(struct zc_pipeline *pipeline, struct zc_request *request);
int zc_staged_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max, int (*wait)(struct zc_pipeline *pipeline));
/* news and use of zc_execution_ops. */
bool zc_staged_news(const struct zc_pipeline *pipeline);
void zc_staged_use(struct zc_pipeline *pipeline, bool cpu, struct zc_pipeline_use *use);

#endif
