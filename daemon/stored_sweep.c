/* See stored_sweep.h. */
#include "stored_sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store.h"
#include "sweep_json.h"
#include "worker.h"

static void on_read(struct worker_job *job)
{
    struct stored_sweep *stored = (struct stored_sweep *)job;
    struct zc_error why;
    json_t *document;
    stored->status = store_read(stored->daemon->store, stored->id, &document, NULL, &why);
    if (!stored->status) {
        stored->status = zc_sweep_from_json(document, &stored->sweep, &why);
        json_decref(document);
    }
    if (stored->status)
        zc_error_set(&stored->error, why.kind, why.errnum, stored->field, "%s: %s", stored->field, why.message);
}

static void on_stored(struct worker_job *job, bool worked)
{
    struct stored_sweep *stored = (struct stored_sweep *)job;
    json_t *result = NULL;
    if (stored->call && !worked)
        call_fail_code(stored->call, ZC_RPC_BUSY, "zcrdmad is stopping", NULL, "busy");
    else if (stored->call && !stored->status)
        stored->status = stored->use(stored, &result, &stored->error);
    if (stored->call && worked && stored->status)
        call_fail(stored->call, &stored->error);
    else if (stored->call && worked)
        call_reply(stored->call, result);
    zc_sweep_destroy(&stored->sweep);
    free(stored);
}

static void on_gone(void *arg)
{
    struct stored_sweep *stored = arg;
    stored->call = NULL;
}

int stored_sweep_read(struct daemon *daemon, struct call *call, const char *id, struct stored_sweep *stored, struct zc_error *err)
{
    if (!store_id_valid(id)) {
        int failed = zc_error_set(err, ZC_ERR_INVALID, -EINVAL, stored->field, "%s: \"%.60s\" is not the id of a result", stored->field, id);
        free(stored);
        return failed;
    }
    stored->job = (struct worker_job){ .work = on_read, .done = on_stored };
    stored->daemon = daemon;
    stored->call = call;
    snprintf(stored->id, sizeof stored->id, "%s", id);
    call_on_gone(call, on_gone, stored);
    worker_submit(daemon->worker, &stored->job);
    return CMD_KEPT;
}
