/* JSON-RPC 2.0 framing, requests, replies: see rpc.h. */
#include "rpc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zc_json.h"

enum { FIRST_CAPACITY = 4096 };

enum zc_rpc_code zc_rpc_code_of(enum zc_error_kind kind)
{
    switch (kind) {
    case ZC_ERR_INVALID:
        return ZC_RPC_PARAMS;
    case ZC_ERR_NOT_FOUND:
        return ZC_RPC_NOT_FOUND;
    case ZC_ERR_BUSY:
        return ZC_RPC_BUSY;
    case ZC_ERR_DENIED:
        return ZC_RPC_DENIED;
    case ZC_ERR_PEER:
        return ZC_RPC_PEER;
    case ZC_ERR_MEMLOCK:
    case ZC_ERR_RESOURCE:
        return ZC_RPC_RESOURCE;
    case ZC_ERR_DEVICE:
        return ZC_RPC_DEVICE;
    case ZC_ERR_VALIDATION:
    case ZC_ERR_UNMEASURED:
    case ZC_ERR_CANCELLED:
        return ZC_RPC_RUN_FAILED;
    case ZC_ERR_NONE:
    case ZC_ERR_INTERNAL:
        break;
    }
    return ZC_RPC_INTERNAL;
}

/* ---- framing ---- */

void zc_rpc_reader_init(struct zc_rpc_reader *reader)
{
    *reader = (struct zc_rpc_reader){ .limit = ZC_RPC_LINE_MAX };
}

void zc_rpc_reader_destroy(struct zc_rpc_reader *reader)
{
    free(reader->buffer);
    *reader = (struct zc_rpc_reader){ .limit = reader->limit };
}

/* Forget everything unread; the memory goes back. */
static void reader_clear(struct zc_rpc_reader *reader)
{
    free(reader->buffer);
    reader->buffer = NULL;
    reader->start = reader->length = reader->scanned = reader->capacity = 0;
}

int zc_rpc_reader_feed(struct zc_rpc_reader *reader, const char *bytes, size_t length)
{
    size_t unread = reader->length - reader->start, capacity = reader->capacity;
    char *grown;

    if (length == 0)
        return 0;
    if (reader->start > 0) {
        memmove(reader->buffer, reader->buffer + reader->start, unread);
        reader->scanned -= reader->start;
        reader->length = unread;
        reader->start = 0;
    }
    if (capacity == 0)
        capacity = FIRST_CAPACITY;
    while (capacity - unread < length)
        capacity *= 2;
    if (capacity != reader->capacity) {
        grown = realloc(reader->buffer, capacity);
        if (grown == NULL)
            return -ENOMEM;
        reader->buffer = grown;
        reader->capacity = capacity;
    }
    memcpy(reader->buffer + unread, bytes, length);
    reader->length += length;
    return 0;
}

static bool blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

enum zc_rpc_read zc_rpc_reader_next(struct zc_rpc_reader *reader, const char **line, size_t *length)
{
    while (reader->scanned < reader->length) {
        const char *begin = reader->buffer + reader->start;
        const char *newline = memchr(reader->buffer + reader->scanned, '\n', reader->length - reader->scanned);
        size_t found = newline != NULL ? (size_t)(newline - begin) : reader->length - reader->start;
        bool skipped = reader->skipping, too_long = found >= reader->limit;

        if (newline == NULL) {
            if (!skipped && !too_long) {
                reader->scanned = reader->length;
                return ZC_RPC_MORE;
            }
            reader->skipping = true;
            reader_clear(reader);
            return skipped ? ZC_RPC_MORE : ZC_RPC_OVERLONG;
        }
        reader->skipping = false;
        reader->start += found + 1;
        reader->scanned = reader->start;
        if (skipped || (!too_long && blank(begin, found)))
            continue;
        if (too_long)
            return ZC_RPC_OVERLONG;
        *line = begin;
        *length = found;
        return ZC_RPC_LINE;
    }
    if (reader->start == reader->length)
        reader_clear(reader);
    return ZC_RPC_MORE;
}

/* ---- requests ---- */

/* Why jansson refused: one line. */
static json_t *syntax_error(const json_error_t *why)
{
    char message[ZC_ERROR_MESSAGE_MAX];

    if (json_error_code(why) == json_error_duplicate_key) {
        snprintf(message, sizeof(message), "invalid request: %s", why->text);
        return zc_rpc_error_reply(NULL, ZC_RPC_REQUEST, message, NULL, "invalid");
    }
    snprintf(message, sizeof(message), "not JSON: %s (column %d)", why->text, why->column);
    return zc_rpc_error_reply(NULL, ZC_RPC_PARSE, message, NULL, "invalid");
}

static json_t *load(const char *line, size_t length, json_error_t *why)
{
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_t *root = json_loadb(line, length, flags, why);

    /* A size of 1e30 written as an integer is well-formed; let its range be the error. */
    if (root == NULL && json_error_code(why) == json_error_numeric_overflow)
        root = json_loadb(line, length, flags | JSON_DECODE_INT_AS_REAL, why);
    return root;
}

static json_t *refuse(const json_t *id, enum zc_rpc_code code, const char *field, const char *message)
{
    return zc_rpc_error_reply(id, code, message, field, "invalid");
}

static json_t *unknown_member(const json_t *id, json_t *root)
{
    static const char *const known[] = { "jsonrpc", "id", "method", "params" };
    char message[128];
    const char *name;
    json_t *value;

    json_object_foreach (root, name, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found = found || strcmp(known[i], name) == 0;
        if (!found) {
            snprintf(message, sizeof(message), "invalid request: unknown member \"%.60s\"", name);
            return refuse(id, ZC_RPC_REQUEST, name, message);
        }
    }
    return NULL;
}

/* NULL if `root` is a request; *id is set in any case where there is a valid one. */
static json_t *check_request(json_t *root, const json_t **id)
{
    const json_t *found_id = json_object_get(root, "id"), *params = json_object_get(root, "params");
    const char *version = json_string_value(json_object_get(root, "jsonrpc"));

    if (json_is_array(root))
        return refuse(NULL, ZC_RPC_REQUEST, NULL, "invalid request: batches are not supported, send one request a line");
    if (!json_is_object(root))
        return refuse(NULL, ZC_RPC_REQUEST, NULL, "invalid request: it is not an object");
    if (found_id != NULL && !json_is_string(found_id) && !json_is_number(found_id) && !json_is_null(found_id))
        return refuse(NULL, ZC_RPC_REQUEST, "id", "invalid request: id must be a string, a number or null");
    *id = found_id;
    if (version == NULL || strcmp(version, "2.0") != 0)
        return refuse(*id, ZC_RPC_REQUEST, "jsonrpc", "invalid request: jsonrpc must be \"2.0\"");
    if (!json_is_string(json_object_get(root, "method")))
        return refuse(*id, ZC_RPC_REQUEST, "method", "invalid request: method must be a string");
    if (json_is_array(params) && *id != NULL)
        return refuse(*id, ZC_RPC_PARAMS, "params", "params must be an object (by name, not by position)");
    if (params != NULL && !json_is_object(params))
        return refuse(*id, ZC_RPC_REQUEST, "params", "invalid request: params must be an object");
    return unknown_member(*id, root);
}

json_t *zc_rpc_request_decode(const char *line, size_t length, struct zc_rpc_request *request)
{
    json_error_t why;
    json_t *root = load(line, length, &why), *id, *error;

    *request = (struct zc_rpc_request){ 0 };
    if (root == NULL)
        return syntax_error(&why);
    id = json_object_get(root, "id");
    if (json_is_real(id) && fabs(json_real_value(id)) < 0x1p53 && trunc(json_real_value(id)) == json_real_value(id))
        json_object_set_new(root, "id", json_integer((json_int_t)json_real_value(id)));    /* undo JSON_DECODE_INT_AS_REAL */
    error = check_request(root, &request->id);
    if (error != NULL) {
        json_decref(root);
        *request = (struct zc_rpc_request){ 0 };
        return error;
    }
    request->root = root;
    request->method = json_string_value(json_object_get(root, "method"));
    request->params = json_object_get(root, "params");
    return NULL;
}

void zc_rpc_request_destroy(struct zc_rpc_request *request)
{
    json_decref(request->root);
    *request = (struct zc_rpc_request){ 0 };
}

/* ---- messages to send ---- */

static json_t *copy_id(const json_t *id)
{
    return id != NULL ? json_deep_copy(id) : json_null();
}

json_t *zc_rpc_reply(const json_t *id, json_t *result)
{
    if (result == NULL)
        return zc_rpc_error_reply(id, ZC_RPC_INTERNAL, "out of memory", NULL, "internal");
    return json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "result", result, "id", copy_id(id));
}

json_t *zc_rpc_error_reply(const json_t *id, enum zc_rpc_code code, const char *message, const char *field, const char *kind)
{
    json_t *data = json_pack("{s:o, s:o}", "field", zc_json_text(field), "kind", zc_json_text(kind));

    if (message == NULL || *message == '\0')       /* the standard wants a string */
        message = "internal error";
    return json_pack("{s:s, s:{s:i, s:o, s:o}, s:o}", "jsonrpc", "2.0", "error", "code", (int)code, "message",
                     zc_json_text(message), "data", data, "id", copy_id(id));
}

json_t *zc_rpc_error_reply_from(const json_t *id, const struct zc_error *err)
{
    return zc_rpc_error_reply(id, zc_rpc_code_of(err->kind), err->message, err->field, zc_error_kind_name(err->kind));
}

json_t *zc_rpc_call(int64_t id, const char *method, json_t *params)
{
    return json_pack("{s:s, s:I, s:s, s:o*}", "jsonrpc", "2.0", "id", (json_int_t)id, "method", method, "params", params);
}

json_t *zc_rpc_notification(const char *method, json_t *params)
{
    return json_pack("{s:s, s:s, s:o*}", "jsonrpc", "2.0", "method", method, "params", params);
}

char *zc_rpc_encode(const json_t *message, size_t *length)
{
    size_t size = json_dumpb(message, NULL, 0, ZC_JSON_MESSAGE);
    char *line = size > 0 ? malloc(size + 2) : NULL;

    if (line == NULL)
        return NULL;
    json_dumpb(message, line, size, ZC_JSON_MESSAGE);
    line[size] = '\n';
    line[size + 1] = '\0';
    *length = size + 1;
    return line;
}
