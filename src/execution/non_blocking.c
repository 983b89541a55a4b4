/* Execution: many requests in flight. The caller's thread submits, posts, polls and reaps; registering threads prepare chunks for it,
 * copying or deregistering threads finish them. It polls for both, or sleeps, as --wait says. */
#include "execution/staged.h"

#include <errno.h>
#include <stdlib.h>

static struct zc_hands non_blocking_hands(const struct zc_pipeline *pipeline)
{
    const struct zc_run_options *const options = pipeline->params.options;
    const uint64_t after = pipeline->copies ? options->concurrency : pipeline->deregisters ? options->concurrency_dereg : 0;
    return (struct zc_hands){.before = pipeline->registers ? (uint32_t)options->concurrency_reg : 0, .after = (uint32_t)after};
}

static int non_blocking_setup(struct zc_pipeline *pipeline, struct zc_error *err)
{
    struct zc_staged *const staged = calloc(1, sizeof *staged);
    if (!staged)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for the threads of a run");
    return zc_staged_create(pipeline, staged, err);
}

static int non_blocking_reap(struct zc_pipeline *pipeline, struct zc_request **done, uint32_t max)
{
    return zc_staged_reap(pipeline, done, max, zc_pipeline_wait);
}

const struct zc_execution_ops zc_execution_non_blocking = {
    .kind = ZC_EXECUTION_NON_BLOCKING,
    .hands = non_blocking_hands,
    .setup = non_blocking_setup,
    .teardown = zc_staged_destroy,
    .submit = zc_staged_submit,
    .reap = non_blocking_reap,
    .news = zc_staged_news,
    .use = zc_staged_use,
};
