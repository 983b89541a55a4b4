/* run.start, run.wait, run.cancel, run.list */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "cmd_result.h"
#include "options_json.h"
#include "stored_sweep.h"
#include "zc_json.h"

/* One run.wait that is not answered yet. */
struct pending_wait {
    struct run_waiter waiter;       /* first: run.c hands it back */
    struct call *call;
};

static int start(struct daemon *daemon, const struct call *call, const struct zc_run_options *options, json_t **result, struct zc_error *err)
{
    char id[ZC_ID_MAX];
    int failed = runs_start(daemon->runs, options, call_user(call)->uid, id, err);
    if (!failed)
        *result = json_pack("{s:s}", "id", id);
    return failed;
}

/* A run whose threshold is read from a sweep first. */
struct run_with_threshold {
    struct stored_sweep read;       /* first: it is handed back */
    struct zc_run_options options;
};

static int start_with_threshold(struct stored_sweep *stored, json_t **result, struct zc_error *err)
{
    struct zc_run_options *options = &((struct run_with_threshold *)stored)->options;
    int failed = zc_sweep_threshold(&stored->sweep, &options->threshold_bytes, err);
    return failed ? failed : start(stored->daemon, stored->call, options, result, err);
}

static int read_threshold(struct daemon *daemon, struct call *call, const struct zc_run_options *options, struct zc_error *err)
{
    struct run_with_threshold *run = calloc(1, sizeof *run);
    if (!run)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "run.start: out of memory");
    run->read.field = "threshold";
    run->read.use = start_with_threshold;
    run->options = *options;
    return stored_sweep_read(daemon, call, options->threshold_sweep, &run->read, err);
}

int cmd_run_start(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    struct zc_run_options options;
    int failed = zc_run_options_from_json(params, &options, err);
    if (failed)
        return failed;
    return *options.threshold_sweep ? read_threshold(daemon, call, &options, err) : start(daemon, call, &options, result, err);
}

/* `document` is stolen. */
static json_t *encode_outcome(json_t *document, const char *path, const char *store_error)
{
    return json_pack("{s:o, s:o, s:o}", "result", document, "path", zc_json_text(path), "store_error", zc_json_text(store_error));
}

static void on_ended(struct run_waiter *waiter, const struct run_outcome *outcome)
{
    struct pending_wait *wait = (struct pending_wait *)waiter;
    if (outcome && outcome->document)
        call_reply(wait->call, encode_outcome(json_incref(outcome->document), outcome->path, outcome->store_error));
    else if (outcome)
        call_fail_code(wait->call, ZC_RPC_RESOURCE, outcome->store_error, NULL, "resource");
    else
        call_fail_code(wait->call, ZC_RPC_BUSY, "zcrdmad stops before the run has ended", NULL, "busy");
    free(wait);
}

static json_t *encode_position(const struct run_info *info)
{
    return info->queue_position ? json_integer((json_int_t)info->queue_position) : json_null();
}

static void on_progress(struct run_waiter *waiter, const struct run_info *info)
{
    struct pending_wait *wait = (struct pending_wait *)waiter;
    call_notify(wait->call, "run.progress",
                json_pack("{s:s, s:s, s:f, s:f, s:o, s:o, s:o}", "id", info->id, "phase", info->phase, "elapsed_s", info->elapsed_s,
                          "total_s", info->total_s, "gib_per_s", zc_json_real(info->gib_per_s), "queue_position",
                          encode_position(info), "detail", zc_json_text(info->detail)));
}

static void on_client_gone(void *arg)
{
    struct pending_wait *wait = arg;
    runs_forget(&wait->waiter);
    free(wait);
}

int cmd_run_wait(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    const char *id;
    bool progress = false;
    int failed = cmd_text(params, "id", &id, err);
    if (!failed)
        failed = cmd_flag(params, "progress", &progress, err);
    if (failed)
        return failed;
    struct pending_wait *wait = calloc(1, sizeof *wait);
    if (!wait)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "run.wait: out of memory");
    wait->call = call;
    wait->waiter.ended = on_ended;
    wait->waiter.progressed = progress ? on_progress : NULL;
    call_on_gone(call, on_client_gone, wait);
    if (runs_wait(daemon->runs, id, &wait->waiter))
        return CMD_KEPT;
    call_on_gone(call, NULL, NULL);
    free(wait);
    return cmd_result_outcome(daemon, call, id, err);
}

int cmd_run_cancel(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call;
    const char *id;
    int failed = cmd_text(params, "id", &id, err);
    if (!failed)
        failed = runs_cancel(daemon->runs, id, err);
    if (!failed)
        *result = json_pack("{s:b}", "cancelled", 1);
    return failed;
}

static void add_row(void *rows, const struct run_info *info)
{
    json_array_append_new(rows, json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:f, s:f}", "id", info->id, "strategy", info->strategy,
                                          "peer", zc_json_text(info->peer), "size", zc_json_known(info->size_bytes), "state",
                                          info->active ? "active" : "queued", "phase", info->phase, "elapsed_s", info->elapsed_s,
                                          "total_s", info->total_s));
}

int cmd_run_list(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call, (void)params, (void)err;
    json_t *rows = json_array();
    if (rows)
        runs_list(daemon->runs, add_row, rows);
    *result = rows ? json_pack("{s:o}", "runs", rows) : NULL;
    return 0;
}
