/* JSON-RPC 2.0, one message a line: framing, requests, replies, error codes. No sockets, no methods. Target zc_codec.
 * https://www.jsonrpc.org/specification */
#ifndef ZC_RPC_H
#define ZC_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"

/* Bytes of one message, the newline included: what a daemon accepts, and what a client accepts (a result with the series of a
 * day's window is several MiB). */
enum { ZC_RPC_LINE_MAX = 1 << 20, ZC_RPC_REPLY_MAX = 64 << 20 };

/* The standard's codes and ours. Every error carries data: {"field": NAME or null, "kind": NAME}. */
enum zc_rpc_code {
    ZC_RPC_PARSE = -32700, ZC_RPC_REQUEST = -32600, ZC_RPC_METHOD = -32601, ZC_RPC_PARAMS = -32602, ZC_RPC_INTERNAL = -32603,
    ZC_RPC_NOT_FOUND = -32001, ZC_RPC_BUSY = -32002, ZC_RPC_DENIED = -32003, ZC_RPC_RUN_FAILED = -32004,
    ZC_RPC_RESOURCE = -32005, ZC_RPC_DEVICE = -32006, ZC_RPC_PEER = -32007, ZC_RPC_TOO_LONG = -32008,
};
enum zc_rpc_code zc_rpc_code_of(enum zc_error_kind kind);

/* Bytes in, lines out. Take all lines after each feed: then the buffer holds at most `limit` bytes and one feed. It is given
 * back when it is empty. One owner thread. */
struct zc_rpc_reader {
    char *buffer;
    size_t start, length, capacity, scanned;    /* the unread bytes are [start, length); no newline in [start, scanned) */
    size_t limit;           /* bytes of a line, the newline included: ZC_RPC_LINE_MAX unless set to another after init */
    bool skipping;          /* inside a line that was too long: drop up to its newline */
};
enum zc_rpc_read { ZC_RPC_LINE, ZC_RPC_MORE, ZC_RPC_OVERLONG };
void zc_rpc_reader_init(struct zc_rpc_reader *reader);
void zc_rpc_reader_destroy(struct zc_rpc_reader *reader);
/* Append received bytes. 0 or -ENOMEM. */
int zc_rpc_reader_feed(struct zc_rpc_reader *reader, const char *bytes, size_t length);
/* Take the next line (without newline, not zero-terminated, valid until the next call on the reader). Empty lines are passed
 * over. OVERLONG is reported once for each too long line, as soon as it is too long, and the stream goes on behind its newline. */
enum zc_rpc_read zc_rpc_reader_next(struct zc_rpc_reader *reader, const char **line, size_t *length);

/* A decoded request. Borrowed strings live as long as `root`. */
struct zc_rpc_request {
    json_t *root;           /* owned: zc_rpc_request_destroy() */
    const json_t *id;       /* NULL for a notification */
    const char *method;
    const json_t *params;   /* an object; NULL if absent */
};
/* Decode one line. On error returns the reply to send (a new reference) and leaves *request empty; NULL on success. Batches,
 * params that are not an object, duplicate and unknown members are refused with -32600 (params by position with -32602 where there
 * is an id), whatever is not JSON with -32700; the reply has the request's id where that could be told, else null. Integers of more
 * than 64 bits become reals. */
json_t *zc_rpc_request_decode(const char *line, size_t length, struct zc_rpc_request *request);
void zc_rpc_request_destroy(struct zc_rpc_request *request);

/* Messages to send; each steals `result`/`params` (params may be NULL: none) and copies `id` (NULL becomes null). A NULL result
 * becomes an internal error: the caller had no memory to make it. New references, NULL without memory. */
json_t *zc_rpc_reply(const json_t *id, json_t *result);
json_t *zc_rpc_error_reply(const json_t *id, enum zc_rpc_code code, const char *message, const char *field, const char *kind);
json_t *zc_rpc_error_reply_from(const json_t *id, const struct zc_error *err);
json_t *zc_rpc_call(int64_t id, const char *method, json_t *params);
json_t *zc_rpc_notification(const char *method, json_t *params);
/* One line with its newline and a zero behind it, *length without the zero; free() it. NULL without memory. */
char *zc_rpc_encode(const json_t *message, size_t *length);

#endif
