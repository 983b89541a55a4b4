/* result.list, result.get, result.trace, result.delete: the work is left to the worker's thread, because a disk may be slow. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "cmd_result.h"
#include "zc_json.h"

enum { TRACE_PIECE_BYTES = ZC_RPC_LINE_MAX / 2 - 4096 };
enum { LIST_ROWS = 500 };       /* of one reply, at most */

struct result_job {
    struct worker_job job;      /* first: the worker hands it back */
    struct call *call;          /* NULL: its client has gone */
    struct store *store;
    int (*work)(struct result_job *job, struct zc_error *err);
    char id[NAME_MAX + 1];      /* list: `before`, "" for none */
    uint64_t offset;            /* trace */
    uint64_t limit;             /* list */
    json_t *result;
    int status;
    struct zc_error error;
};

static void on_work(struct worker_job *worker_job)
{
    struct result_job *job = (struct result_job *)worker_job;
    job->status = job->work(job, &job->error);
}

static void on_done(struct worker_job *worker_job, bool worked)
{
    struct result_job *job = (struct result_job *)worker_job;
    if (job->call && !worked)
        call_fail_code(job->call, ZC_RPC_BUSY, "zcrdmad is stopping", NULL, "busy");
    else if (job->call && job->status < 0)
        call_fail(job->call, &job->error);
    else if (job->call)
        call_reply(job->call, json_incref(job->result));
    json_decref(job->result);
    free(job);
}

static void on_gone(void *arg)
{
    struct result_job *job = arg;
    job->call = NULL;
}

static struct result_job *job_create(int (*work)(struct result_job *job, struct zc_error *err), const char *id, struct zc_error *err)
{
    struct result_job *job = calloc(1, sizeof *job);
    if (!job) {
        zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "results: out of memory");
        return NULL;
    }
    job->work = work;
    snprintf(job->id, sizeof job->id, "%s", id);
    return job;
}

static int submit(struct daemon *daemon, struct call *call, struct result_job *job)
{
    if (!job)
        return -ENOMEM;
    job->job = (struct worker_job){ .work = on_work, .done = on_done };
    job->call = call;
    job->store = daemon->store;
    call_on_gone(call, on_gone, job);
    worker_submit(daemon->worker, &job->job);
    return CMD_KEPT;
}

/* ---- list */

static int list(struct result_job *job, struct zc_error *err)
{
    json_t *rows;
    char next[NAME_MAX + 1];
    int failed = *job->id ? 0 : store_refresh(job->store, err);     /* the first page looks, the others go on from there */
    if (failed)
        return failed;
    if (store_page(job->store, *job->id ? job->id : NULL, job->limit, &rows, next) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "result.list: out of memory");
    job->result = json_pack("{s:o, s:o}", "results", rows, "next", zc_json_text(next));
    return 0;
}

int cmd_result_list(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    const char *before = "";
    uint64_t limit = LIST_ROWS;
    int failed = json_object_get(params, "before") ? cmd_text(params, "before", &before, err) : 0;
    if (!failed && json_object_get(params, "limit"))
        failed = cmd_count(params, "limit", &limit, err);
    if (!failed && (limit < 1 || limit > LIST_ROWS))
        failed = zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "limit", "limit must be from 1 to %d", LIST_ROWS);
    struct result_job *job = failed ? NULL : job_create(list, before, err);
    if (!job)
        return failed ? failed : -ENOMEM;
    job->limit = limit;
    return submit(daemon, call, job);
}

/* ---- get, trace, delete */

static int get(struct result_job *job, struct zc_error *err)
{
    return store_read(job->store, job->id, &job->result, NULL, err);
}

int cmd_result_get(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    const char *id;
    int failed = cmd_text(params, "id", &id, err);
    return failed ? failed : submit(daemon, call, job_create(get, id, err));
}

static int get_outcome(struct result_job *job, struct zc_error *err)
{
    json_t *document;
    char path[PATH_MAX];
    int failed = store_read(job->store, job->id, &document, path, err);
    if (!failed)
        job->result = json_pack("{s:o, s:s, s:n}", "result", document, "path", path, "store_error");
    return failed;
}

int cmd_result_outcome(struct daemon *daemon, struct call *call, const char *id, struct zc_error *err)
{
    return submit(daemon, call, job_create(get_outcome, id, err));
}

/* In pieces, because a reply is one message: half of it for the bytes, the other half for what JSON puts before quotes. */
static int trace(struct result_job *job, struct zc_error *err)
{
    uint64_t total;
    size_t length;
    char *piece = malloc(TRACE_PIECE_BYTES);
    if (!piece)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "result.trace: out of memory");
    int failed = store_trace_read(job->store, job->id, job->offset, piece, TRACE_PIECE_BYTES, &length, &total, err);
    if (!failed)
        job->result = json_pack("{s:s%, s:o, s:o}", "text", piece, length, "next", job->offset + length < total && length > 0
                                ? zc_json_count(job->offset + length) : json_null(), "size", zc_json_count(total));
    free(piece);
    return failed;
}

int cmd_result_trace(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    const char *id;
    uint64_t offset = 0;
    int failed = cmd_text(params, "id", &id, err);
    if (!failed && json_object_get(params, "offset"))
        failed = cmd_count(params, "offset", &offset, err);
    struct result_job *job = failed ? NULL : job_create(trace, id, err);
    if (!job)
        return failed ? failed : -ENOMEM;
    job->offset = offset;
    return submit(daemon, call, job);
}

static int delete(struct result_job *job, struct zc_error *err)
{
    int failed = store_delete(job->store, job->id, err);
    if (!failed)
        job->result = json_pack("{s:b}", "deleted", 1);
    return failed;
}

int cmd_result_delete(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    const char *id;
    int failed = cmd_text(params, "id", &id, err);
    return failed ? failed : submit(daemon, call, job_create(delete, id, err));
}

/* ---- at the start, and when the limit has changed */

struct upkeep {
    struct worker_job job;
    struct store *store;
};

static void on_upkeep(struct worker_job *job)
{
    struct zc_error ignored;
    struct upkeep *upkeep = (struct upkeep *)job;
    store_prune(upkeep->store);
    store_refresh(upkeep->store, &ignored);
}

static void on_upkeep_done(struct worker_job *job, bool worked)
{
    (void)worked;
    free(job);
}

void result_upkeep(struct daemon *daemon)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    if (!upkeep)
        return;         /* the next list, or result, does the same */
    upkeep->job = (struct worker_job){ .work = on_upkeep, .done = on_upkeep_done };
    upkeep->store = daemon->store;
    worker_submit(daemon->worker, &upkeep->job);
}
