/* See reuse.h and reuse_private.h. */
#include "reuse_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct zc_reuse *zc_reuse_create(void)
{
    return calloc(1, sizeof(struct zc_reuse));
}

static void drop_connection(struct zc_reuse *reuse)
{
    zc_connection_close(reuse->connection);
    zc_completion_destroy(reuse->completion);
    reuse->connection = NULL;
    reuse->completion = NULL;
}

static void drop_buffers(struct zc_reuse *reuse)
{
    zc_buffer_destroy(&reuse->user);
    reuse->user = (struct zc_buffer){ .address = NULL };
}

void zc_reuse_destroy(struct zc_reuse *reuse)
{
    if (!reuse)
        return;
    drop_connection(reuse);
    drop_buffers(reuse);
    zc_placement_destroy(reuse->placement);
    free(reuse);
}

bool zc_reuse_environment(struct zc_run *run)
{
    struct zc_reuse *const reuse = run->params->reuse;
    if (!reuse || !reuse->environment_known)
        return false;
    run->result->environment = reuse->environment;
    return true;
}

bool zc_reuse_placement(struct zc_run *run)
{
    struct zc_reuse *const reuse = run->params->reuse;
    if (!reuse || !reuse->placement)
        return false;
    if (strcmp(reuse->numa, run->params->options.numa) != 0) {
        zc_placement_destroy(reuse->placement);
        reuse->placement = NULL;
        return false;
    }
    run->placement = reuse->placement;
    run->threads_bound = reuse->threads_bound;
    reuse->placement = NULL;
    return true;
}

bool zc_reuse_connection(struct zc_run *run)
{
    struct zc_reuse *const reuse = run->params->reuse;
    struct zc_error ignored;
    if (!reuse || !reuse->connection)
        return false;
    if (reuse->qps != run->params->options.qps || reuse->tos != run->params->options.tos
        || reuse->post != run->params->options.post
        || zc_connection_check(reuse->connection, &ignored) < 0) {
        drop_connection(reuse);
        return false;
    }
    run->connection = reuse->connection;
    run->completion = reuse->completion;
    run->result->peer = reuse->peer;
    reuse->connection = NULL;
    reuse->completion = NULL;
    return true;
}

/* A larger buffer serves as well: the run sees as much of it as it asked for. */
bool zc_reuse_buffers(struct zc_run *run)
{
    struct zc_reuse *const reuse = run->params->reuse;
    const uint64_t need = run->result->terms.footprint_bytes;
    if (!reuse || !reuse->user.address)
        return false;
    if (reuse->pages != run->params->options.pages || reuse->user.mapped_bytes < need) {
        drop_buffers(reuse);
        return false;
    }
    run->user = reuse->user;
    run->user.length_bytes = need;
    reuse->user = (struct zc_buffer){ .address = NULL };
    return true;
}

void zc_reuse_give_back(struct zc_run *run)
{
    struct zc_reuse *const reuse = run->params->reuse;
    const struct zc_run_options *const options = &run->params->options;
    reuse->environment = run->result->environment;
    reuse->environment_known = true;
    reuse->placement = run->placement;
    reuse->threads_bound = run->threads_bound;
    snprintf(reuse->numa, sizeof reuse->numa, "%s", options->numa);
    reuse->connection = run->connection;
    reuse->completion = run->completion;
    reuse->qps = options->qps;
    reuse->tos = options->tos;
    reuse->post = options->post;
    reuse->peer = run->result->peer;
    run->placement = NULL;
    run->connection = NULL;
    run->completion = NULL;
    if (options->buffers == ZC_BUFFERS_FRESH)   /* its pages were given back to the system: not touched any more */
        return;
    reuse->user = run->user;
    reuse->pages = options->pages;
    reuse->huge_bytes = run->result->terms.huge_page_bytes;
    run->user = (struct zc_buffer){ .address = NULL };
}
