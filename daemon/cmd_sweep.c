/* sweep.start, sweep.recommend: a sweep is a job of the run queue (run.h), so run.wait, run.cancel and run.list serve it, too. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "stored_sweep.h"
#include "sweep_json.h"
#include "sweeping.h"
#include "zc_json.h"

struct sweep_job {
    struct run_job job;         /* first: the queue hands it back */
    struct zc_sweep sweep;
    struct zc_sweep_progress progress;
};

static json_t *work(struct run_job *run_job, const struct run_job_terms *terms, enum zc_run_state *state, struct zc_error *err)
{
    struct sweep_job *job = (struct sweep_job *)run_job;
    struct zc_sweep *sweep = &job->sweep;
    struct zc_sweep_params params = {
        .device = terms->device, .host = terms->host, .port = terms->port, .key = terms->key, .cancel_fd = terms->cancel_fd, .cancel = terms->cancel,
        .thread_allocations = terms->thread_allocations, .wake = terms->wake, .wake_arg = terms->wake_arg, .progress = &job->progress,
        .measure = zc_measure, .probe = zc_probe_run,
    };
    memcpy(sweep->id, terms->id, sizeof sweep->id);
    sweep->owner_uid = terms->owner_uid;
    if (terms->device)
        zc_sweep_run(&params, sweep);
    else
        sweep->error = *err;
    *state = sweep->state;
    *err = sweep->error;
    return zc_sweep_to_json(sweep);
}

static void tell(const struct run_job *run_job, struct run_info *info)
{
    const struct zc_sweep_progress *progress = &((const struct sweep_job *)run_job)->progress;
    uint64_t best = atomic_load(&progress->best_bytes_per_s);
    uint32_t strategy = atomic_load(&progress->strategy);
    char size[32];
    info->phase = "sweep";
    info->elapsed_s = (double)atomic_load(&progress->elapsed_ns) / 1e9;
    info->total_s = (double)atomic_load(&progress->budget_ns) / 1e9;
    info->gib_per_s = best ? (double)best / 0x1p30 : NAN;
    if (atomic_load(&progress->cells_total) && strategy < ZC_STRATEGY_COUNT)
        snprintf(info->detail, sizeof info->detail, "%u/%u done, now %s %s, best", atomic_load(&progress->cells_done),
                 atomic_load(&progress->cells_total), zc_strategy_names[strategy],
                 zc_size_format(atomic_load(&progress->size_bytes), size, sizeof size));
}

static void destroy(struct run_job *run_job)
{
    struct sweep_job *job = (struct sweep_job *)run_job;
    zc_sweep_destroy(&job->sweep);
    free(job);
}

/* What is wanted of a stored sweep. */
struct stored {
    struct stored_sweep read;   /* first: it is handed back */
    enum zc_goal goal;          /* recommend */
    uint64_t size_bytes;
    double budget_s;            /* resume: for the rest */
};

static int read_stored(struct daemon *daemon, struct call *call, const char *id, const struct stored *what, struct zc_error *err)
{
    struct stored *stored = malloc(sizeof *stored);
    if (!stored)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "sweep: out of memory");
    *stored = *what;
    return stored_sweep_read(daemon, call, id, &stored->read, err);
}

/* ---- start */

/* The sweep belongs to the queue from here on, also on failure. */
static int start(struct daemon *daemon, const struct call *call, const struct zc_sweep *sweep, json_t **result, struct zc_error *err)
{
    char id[ZC_ID_MAX];
    struct sweep_job *job = calloc(1, sizeof *job);
    if (!job) {
        free(sweep->cells);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "sweep.start: out of memory");
    }
    job->sweep = *sweep;
    job->job = (struct run_job){
        .kind = "sweep", .peer = job->sweep.options.base.peer, .device = job->sweep.options.base.device, .work = work, .tell = tell,
        .destroy = destroy,
    };
    int failed = runs_start_job(daemon->runs, &job->job, call_user(call)->uid, id, err);
    if (!failed)
        *result = json_pack("{s:s}", "id", id);
    return failed;
}

static int resume(struct stored_sweep *stored, json_t **result, struct zc_error *err)
{
    struct zc_sweep sweep = stored->sweep;
    stored->sweep.cells = NULL;
    sweep.options.budget_s = sweep.elapsed_s + ((struct stored *)stored)->budget_s;
    return start(stored->daemon, stored->call, &sweep, result, err);
}

/* Only the budget of the rest may be another one; everything else is as it was. */
static int rest_budget(const json_t *params, double *budget_s, struct zc_error *err)
{
    struct zc_sweep_options asked;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)params, name, value)
        if (strcmp(name, "resume") != 0 && strcmp(name, "budget") != 0)
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%.60s: a resumed sweep goes on with the options it began with", name);
    json_t *rest = json_object();
    if (json_object_get(params, "budget"))
        json_object_set(rest, "budget", json_object_get(params, "budget"));
    int failed = zc_sweep_options_from_json(rest, &asked, err);
    *budget_s = failed ? 0 : asked.budget_s;
    json_decref(rest);
    return failed;
}

static int start_stored(struct daemon *daemon, struct call *call, const json_t *params, struct zc_error *err)
{
    struct stored what = { .read = { .field = "resume", .use = resume } };
    const char *id;
    int failed = cmd_text(params, "resume", &id, err);
    if (!failed)
        failed = rest_budget(params, &what.budget_s, err);
    return failed ? failed : read_stored(daemon, call, id, &what, err);
}

int cmd_sweep_start(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    struct zc_sweep sweep;
    if (json_object_get(params, "resume"))
        return start_stored(daemon, call, params, err);
    zc_sweep_init(&sweep);
    int failed = zc_sweep_options_from_json(params, &sweep.options, err);
    if (!failed && (failed = zc_sweep_plan(&sweep, err)) != 0)
        zc_sweep_destroy(&sweep);
    return failed ? failed : start(daemon, call, &sweep, result, err);
}

/* ---- recommend */

static int question(const json_t *params, enum zc_goal *goal, uint64_t *size_bytes, struct zc_error *err)
{
    const char *goal_text = NULL, *size_text = NULL;
    int failed = json_object_get(params, "goal") ? cmd_text(params, "goal", &goal_text, err) : 0;
    if (!failed && json_object_get(params, "size"))
        failed = cmd_text(params, "size", &size_text, err);
    return failed ? failed : zc_question_parse(goal_text, size_text, goal, size_bytes, err);
}

static int recommend(struct stored_sweep *stored, json_t **result, struct zc_error *err)
{
    const struct stored *what = (struct stored *)stored;
    struct zc_recommendation recommendation;
    (void)err;
    zc_recommend(&stored->sweep, what->goal, what->size_bytes, &recommendation);
    *result = zc_recommendation_to_json(&recommendation);
    return 0;
}

int cmd_sweep_recommend(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    struct stored what = { .read = { .field = "id", .use = recommend } };
    const char *id;
    int failed = cmd_text(params, "id", &id, err);
    if (!failed)
        failed = question(params, &what.goal, &what.size_bytes, err);
    return failed ? failed : read_stored(daemon, call, id, &what, err);
}
