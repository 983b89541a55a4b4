/* probe.start: a probe is a job of the run queue (run.h), so run.wait, run.cancel and run.list serve it, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cmd.h"
#include "probe_json.h"
#include "probe_run.h"

struct probe_job {
    struct run_job job;         /* first: the queue hands it back */
    struct zc_probe probe;
    struct zc_probe_progress progress;
    atomic_uint_least64_t started_ns;
    bool quick;
};

static json_t *work(struct run_job *run_job, const struct run_job_terms *terms, enum zc_run_state *state, struct zc_error *err)
{
    struct probe_job *job = (struct probe_job *)run_job;
    struct zc_probe *probe = &job->probe;
    const struct zc_probe_params params = {
        .device = terms->device, .host = terms->host, .port = terms->port, .key = terms->key, .quick = job->quick, .cancel_fd = terms->cancel_fd,
        .cancel = terms->cancel, .wake = terms->wake, .wake_arg = terms->wake_arg, .progress = &job->progress,
    };
    memcpy(probe->id, terms->id, sizeof probe->id);
    probe->owner_uid = terms->owner_uid;
    probe->quick = job->quick;
    atomic_store(&job->started_ns, zc_now_ns());
    if (terms->device) {
        zc_probe_run(&params, probe, err);
    } else {
        probe->error = *err;
        probe->state = err->kind == ZC_ERR_CANCELLED ? ZC_RUN_CANCELLED : ZC_RUN_FAILED;
    }
    *state = probe->state;
    return zc_probe_to_json(probe);
}

static void tell(const struct run_job *run_job, struct run_info *info)
{
    const struct probe_job *job = (const struct probe_job *)run_job;
    const uint64_t started_ns = atomic_load(&job->started_ns);
    const unsigned rows = atomic_load(&job->progress.rows);
    info->phase = "probe";
    info->elapsed_s = started_ns ? (double)(zc_now_ns() - started_ns) / 1e9 : 0;
    if (rows)
        snprintf(info->detail, sizeof info->detail, "%u/%u done, now %s", atomic_load(&job->progress.rows_done), rows,
                 zc_probe_what_names[atomic_load(&job->progress.what)]);
}

static void destroy(struct run_job *run_job)
{
    free(run_job);
}

static int decode(const json_t *params, struct probe_job *job, struct zc_error *err)
{
    const char *peer;
    int failed = cmd_text(params, "peer", &peer, err);
    if (!failed)
        failed = cmd_flag(params, "quick", &job->quick, err);
    if (!failed && strlen(peer) >= sizeof job->probe.asked_peer)
        failed = zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "peer", "peer: longer than %zu characters", sizeof job->probe.asked_peer - 1);
    if (!failed)
        memcpy(job->probe.asked_peer, peer, strlen(peer) + 1);
    return failed;
}

int cmd_probe_start(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    char id[ZC_ID_MAX];
    struct probe_job *job = calloc(1, sizeof *job);
    if (!job)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "probe.start: out of memory");
    zc_probe_init(&job->probe);
    int failed = decode(params, job, err);
    if (failed) {
        free(job);
        return failed;
    }
    job->job = (struct run_job){ .kind = "probe", .peer = job->probe.asked_peer, .device = "auto", .work = work, .tell = tell,
                                 .destroy = destroy };
    failed = runs_start_job(daemon->runs, &job->job, call_user(call)->uid, id, err);
    if (!failed)
        *result = json_pack("{s:s}", "id", id);
    return failed;
}
