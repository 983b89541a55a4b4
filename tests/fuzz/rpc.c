/* JSON-RPC framing and requests (proto/rpc.c): bytes in pieces of any size; each line is a request or is refused, and whatever is said
 * about it can be encoded. The first byte is the size of the pieces. */
#include <string.h>

#include "fuzz.h"
#include "rpc.h"

static void encodes(json_t *message)
{
    size_t length;
    char *line = message ? zc_rpc_encode(message, &length) : NULL;
    HOLDS(line && length == strlen(line) && memchr(line, '\n', length) == line + length - 1);
    free(line);
    json_decref(message);
}

static void take_line(const char *line, size_t length)
{
    struct zc_rpc_request request;
    json_t *refusal = zc_rpc_request_decode(line, length, &request);
    HOLDS((refusal != NULL) == (request.root == NULL));
    if (refusal) {
        encodes(refusal);
        return;
    }
    HOLDS(request.method && (!request.params || json_is_object(request.params)));
    encodes(zc_rpc_error_reply(request.id, ZC_RPC_METHOD, request.method, "method", "not_found"));
    encodes(zc_rpc_reply(request.id, json_deep_copy(request.root)));
    zc_rpc_request_destroy(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zc_rpc_reader reader;
    if (size == 0)
        return 0;
    const size_t piece = 1 + (size_t)data[0] * 4;
    zc_rpc_reader_init(&reader);
    reader.limit = 512;     /* so that small inputs meet it */
    for (size_t at = 1; at < size; at += piece) {
        const char *line;
        size_t length;
        enum zc_rpc_read read;
        HOLDS(zc_rpc_reader_feed(&reader, (const char *)data + at, size - at < piece ? size - at : piece) == 0);
        while ((read = zc_rpc_reader_next(&reader, &line, &length)) != ZC_RPC_MORE) {
            HOLDS(read == ZC_RPC_OVERLONG || length < reader.limit);
            if (read == ZC_RPC_LINE)
                take_line(line, length);
        }
        HOLDS(reader.length - reader.start < reader.limit);
    }
    zc_rpc_reader_destroy(&reader);
    return 0;
}
