/* result.list, result.get, result.trace, result.delete */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "zc_json.h"

enum { TRACE_PIECE_BYTES = ZC_RPC_LINE_MAX / 2 - 4096 };
enum { LIST_MAX_BYTES = ZC_RPC_LINE_MAX - 65536 };      /* the reply is one message */

struct list {
    json_t *rows;
    size_t bytes, omitted;
};

static json_t *at(const json_t *document, const char *first, const char *second, const char *third)
{
    json_t *found = json_object_get(document, first);
    if (found && second)
        found = json_object_get(found, second);
    if (found && third)
        found = json_object_get(found, third);
    return found ? json_incref(found) : json_null();
}

static json_t *summary(const json_t *document)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "id", at(document, "id", NULL, NULL), "state",
                     at(document, "state", NULL, NULL), "strategy", at(document, "strategy", NULL, NULL), "peer",
                     at(document, "config", "peer", NULL), "size", at(document, "config", "size", NULL), "started_at",
                     at(document, "started_at", NULL, NULL), "gib_per_s", at(document, "throughput", "gib_per_s", NULL), "p50_ns",
                     at(document, "latency", "available", "p50_ns"), "device_kind", at(document, "environment", "device", "kind"),
                     "readable", 1);
}

static json_t *unreadable(const char *name, const char *why)
{
    return json_pack("{s:o, s:b, s:o}", "id", zc_json_text(name), "readable", 0, "error", zc_json_text(why));
}

static bool add_row(void *arg, const char *name, const json_t *document, const char *why)
{
    struct list *list = arg;
    json_t *row = NULL;
    if (list->bytes < LIST_MAX_BYTES)
        row = document ? summary(document) : unreadable(name, why);
    else
        list->omitted++;
    if (row) {
        list->bytes += json_dumpb(row, NULL, 0, ZC_JSON_MESSAGE) + 1;
        json_array_append_new(list->rows, row);
    }
    return true;
}

int cmd_result_list(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call, (void)params;
    struct list list = { .rows = json_array() };
    int failed = list.rows ? store_list(daemon->store, add_row, &list, err)
                           : zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "result.list: out of memory");
    if (failed) {
        json_decref(list.rows);
        return failed;
    }
    *result = json_pack("{s:o}", "results", list.rows);
    if (list.omitted && *result)        /* the oldest did not fit into one message */
        json_object_set_new(*result, "omitted", zc_json_count(list.omitted));
    return 0;
}

int cmd_result_get(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call;
    const char *id;
    int failed = cmd_text(params, "id", &id, err);
    return failed ? failed : store_read(daemon->store, id, result, NULL, err);
}

/* In pieces, because a reply is one message: half of it for the bytes, the other half for what JSON puts before quotes. */
int cmd_result_trace(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call;
    const char *id;
    uint64_t offset = 0, total;
    size_t length;
    int failed = cmd_text(params, "id", &id, err);
    if (!failed && json_object_get(params, "offset"))
        failed = cmd_count(params, "offset", &offset, err);
    if (failed)
        return failed;
    char *piece = malloc(TRACE_PIECE_BYTES);
    if (!piece)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "result.trace: out of memory");
    failed = store_trace_read(daemon->store, id, offset, piece, TRACE_PIECE_BYTES, &length, &total, err);
    if (!failed)
        *result = json_pack("{s:s%, s:o, s:o}", "text", piece, length, "next", offset + length < total && length > 0
                            ? zc_json_count(offset + length) : json_null(), "size", zc_json_count(total));
    free(piece);
    return failed;
}

int cmd_result_delete(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call;
    const char *id;
    int failed = cmd_text(params, "id", &id, err);
    if (!failed)
        failed = store_delete(daemon->store, id, err);
    if (!failed)
        *result = json_pack("{s:b}", "deleted", 1);
    return failed;
}
