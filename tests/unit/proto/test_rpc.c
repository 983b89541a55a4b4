/* JSON-RPC: framing byte by byte, the examples of the specification, and what a hostile client sends. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc.h"

/* ---- framing ---- */

static void feed(struct zc_rpc_reader *reader, const char *text)
{
    assert_int_equal(zc_rpc_reader_feed(reader, text, strlen(text)), 0);
}

static void expect_line(struct zc_rpc_reader *reader, const char *expected)
{
    const char *line;
    size_t length;

    assert_int_equal(zc_rpc_reader_next(reader, &line, &length), ZC_RPC_LINE);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(line, expected, length);
}

static void expect(struct zc_rpc_reader *reader, enum zc_rpc_read what)
{
    const char *line;
    size_t length;

    assert_int_equal(zc_rpc_reader_next(reader, &line, &length), what);
}

static void test_lines(void **state)
{
    struct zc_rpc_reader reader;

    (void)state;
    zc_rpc_reader_init(&reader);
    expect(&reader, ZC_RPC_MORE);
    feed(&reader, "one\ntwo\n\n \t\r\nthr");
    expect_line(&reader, "one");
    expect_line(&reader, "two");
    expect(&reader, ZC_RPC_MORE);
    feed(&reader, "ee\nfour");
    expect_line(&reader, "three");
    expect(&reader, ZC_RPC_MORE);
    feed(&reader, "\n");
    expect_line(&reader, "four");
    expect(&reader, ZC_RPC_MORE);
    assert_null(reader.buffer);     /* empty: the memory is given back */
    zc_rpc_reader_destroy(&reader);
}

static void test_split_bytes(void **state)
{
    static const char stream[] = "{\"a\":1}\n\n{\"b\":2}\n";
    struct zc_rpc_reader reader;
    int lines = 0;

    (void)state;
    zc_rpc_reader_init(&reader);
    for (size_t i = 0; i < sizeof(stream) - 1; i++) {
        const char *line;
        size_t length;
        assert_int_equal(zc_rpc_reader_feed(&reader, &stream[i], 1), 0);
        while (zc_rpc_reader_next(&reader, &line, &length) == ZC_RPC_LINE) {
            assert_int_equal(length, 7);
            lines++;
        }
    }
    assert_int_equal(lines, 2);
    zc_rpc_reader_destroy(&reader);
}

static void test_overlong(void **state)
{
    struct zc_rpc_reader reader;

    (void)state;
    zc_rpc_reader_init(&reader);
    reader.limit = 8;
    feed(&reader, "1234567\n");         /* 8 bytes with the newline: allowed */
    expect_line(&reader, "1234567");
    feed(&reader, "12345678\nok\n");    /* complete, but too long */
    expect(&reader, ZC_RPC_OVERLONG);
    expect_line(&reader, "ok");
    feed(&reader, "12345678");          /* reported as soon as it is too long, once */
    expect(&reader, ZC_RPC_OVERLONG);
    for (int i = 0; i < 100; i++) {
        feed(&reader, "more of the same");
        expect(&reader, ZC_RPC_MORE);
        assert_true(reader.capacity <= 4096);
    }
    feed(&reader, "end\nnext\n");
    expect_line(&reader, "next");
    feed(&reader, "        \nx\n");     /* too long, though it is blank */
    expect(&reader, ZC_RPC_OVERLONG);
    expect_line(&reader, "x");
    expect(&reader, ZC_RPC_MORE);
    zc_rpc_reader_destroy(&reader);
}

static void test_overlong_at_the_real_limit(void **state)
{
    struct zc_rpc_reader reader;
    char *big = malloc(ZC_RPC_LINE_MAX);

    (void)state;
    assert_non_null(big);
    memset(big, ' ', ZC_RPC_LINE_MAX);
    big[0] = 'x';
    zc_rpc_reader_init(&reader);
    assert_int_equal(zc_rpc_reader_feed(&reader, big, ZC_RPC_LINE_MAX - 1), 0);
    expect(&reader, ZC_RPC_MORE);
    feed(&reader, "\n");
    expect(&reader, ZC_RPC_LINE);
    assert_int_equal(zc_rpc_reader_feed(&reader, big, ZC_RPC_LINE_MAX), 0);
    expect(&reader, ZC_RPC_OVERLONG);
    feed(&reader, "\nafter\n");
    expect_line(&reader, "after");
    zc_rpc_reader_destroy(&reader);
    free(big);
}

/* ---- requests ---- */

/* Decode; expect an error with this code and this id (as JSON text). */
static void expect_refused_bytes(const char *line, size_t length, int code, const char *id)
{
    struct zc_rpc_request request;
    json_t *reply = zc_rpc_request_decode(line, length, &request), *error;
    char *id_text, *encoded;
    size_t encoded_length;

    assert_non_null(reply);
    assert_null(request.root);
    assert_null(request.method);
    error = json_object_get(reply, "error");
    assert_int_equal(json_integer_value(json_object_get(error, "code")), code);
    assert_true(json_string_length(json_object_get(error, "message")) > 0);
    assert_non_null(json_object_get(json_object_get(error, "data"), "field"));
    assert_non_null(json_object_get(json_object_get(error, "data"), "kind"));
    assert_string_equal(json_string_value(json_object_get(reply, "jsonrpc")), "2.0");
    id_text = json_dumps(json_object_get(reply, "id"), JSON_ENCODE_ANY);
    assert_string_equal(id_text, id);
    encoded = zc_rpc_encode(reply, &encoded_length);
    assert_ptr_equal(strchr(encoded, '\n'), encoded + encoded_length - 1);      /* one line */
    free(encoded);
    free(id_text);
    json_decref(reply);
}

static void expect_refused(const char *line, int code, const char *id)
{
    expect_refused_bytes(line, strlen(line), code, id);
}

static void test_request(void **state)
{
    static const char line[] = "{\"jsonrpc\": \"2.0\", \"method\": \"run.wait\", \"params\": {\"id\": \"x\"}, \"id\": 3}";
    struct zc_rpc_request request;

    (void)state;
    assert_null(zc_rpc_request_decode(line, strlen(line), &request));
    assert_string_equal(request.method, "run.wait");
    assert_int_equal(json_integer_value(request.id), 3);
    assert_true(json_is_object(request.params));
    zc_rpc_request_destroy(&request);
    assert_null(request.root);
}

static void test_ids_and_notifications(void **state)
{
    static const struct { const char *member; bool notification; } cases[] = {
        { ",\"id\":\"text\"", false }, { ",\"id\":1", false }, { ",\"id\":null", false }, { ",\"id\":1.5", false }, { "", true },
    };
    char line[128];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zc_rpc_request request;
        snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"method\":\"stats\"%s}", cases[i].member);
        assert_null(zc_rpc_request_decode(line, strlen(line), &request));
        assert_true((request.id == NULL) == cases[i].notification);
        assert_null(request.params);
        zc_rpc_request_destroy(&request);
    }
}

/* https://www.jsonrpc.org/specification#examples, as far as they are errors. */
static void test_examples_of_the_specification(void **state)
{
    (void)state;
    expect_refused("{\"jsonrpc\": \"2.0\", \"method\": \"foobar, \"params\": \"bar\", \"baz]", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\": \"2.0\", \"method\": 1, \"params\": \"bar\"}", ZC_RPC_REQUEST, "null");
    expect_refused("[\n", ZC_RPC_PARSE, "null");
    expect_refused("[]", ZC_RPC_REQUEST, "null");
    expect_refused("[1]", ZC_RPC_REQUEST, "null");
    expect_refused("[1,2,3]", ZC_RPC_REQUEST, "null");
    expect_refused("[{\"jsonrpc\": \"2.0\", \"method\": \"sum\", \"params\": {}, \"id\": \"1\"}]", ZC_RPC_REQUEST, "null");
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused("1", ZC_RPC_REQUEST, "null");
    expect_refused("\"text\"", ZC_RPC_REQUEST, "null");
    expect_refused("null", ZC_RPC_REQUEST, "null");
    expect_refused("{}", ZC_RPC_REQUEST, "null");
    expect_refused("{\"id\":1,\"method\":\"a\"}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":2.0,\"id\":1,\"method\":\"a\"}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":\"x\"}", ZC_RPC_REQUEST, "\"x\"");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}", ZC_RPC_REQUEST, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"a\"}", ZC_RPC_REQUEST, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"a\"}", ZC_RPC_REQUEST, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[1]}", ZC_RPC_PARAMS, "1");
    expect_refused("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[1]}", ZC_RPC_REQUEST, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":1}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":null}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"parms\":{}}", ZC_RPC_REQUEST, "1");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"method\":\"b\"}", ZC_RPC_REQUEST, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":1,\"x\":2}}", ZC_RPC_REQUEST, "null");
}

static void test_garbage(void **state)
{
    static const char with_zero[] = "{\"jsonrpc\":\"2.0\",\0\"id\":1,\"method\":\"a\"}";
    char bytes[256];

    (void)state;
    expect_refused("GET / HTTP/1.1", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000\"}", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} {}", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"a\"}", ZC_RPC_PARSE, "null");
    expect_refused("{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"a\"}", ZC_RPC_PARSE, "null");
    expect_refused_bytes(with_zero, sizeof(with_zero) - 1, ZC_RPC_PARSE, "null");
    expect_refused_bytes("\0", 1, ZC_RPC_PARSE, "null");
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    expect_refused_bytes(bytes, sizeof(bytes), ZC_RPC_PARSE, "null");
}

static void test_deep_nesting(void **state)
{
    size_t depth = ZC_RPC_LINE_MAX / 2;
    char *line = malloc(2 * depth);

    (void)state;
    assert_non_null(line);
    memset(line, '[', depth);
    memset(line + depth, ']', depth);
    expect_refused_bytes(line, 2 * depth, ZC_RPC_PARSE, "null");
    free(line);
}

static void test_big_integers_become_reals(void **state)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"run.start\",\"params\":{\"size\":100000000000000000000}}";
    struct zc_rpc_request request;

    (void)state;
    assert_null(zc_rpc_request_decode(line, strlen(line), &request));
    assert_true(json_is_integer(request.id));
    assert_int_equal(json_integer_value(request.id), 7);
    assert_true(json_real_value(json_object_get(request.params, "size")) == 1e20);
    zc_rpc_request_destroy(&request);
}

/* ---- messages ---- */

static void expect_encoded(json_t *message, const char *expected)
{
    size_t length;
    char *line = zc_rpc_encode(message, &length);

    assert_non_null(line);
    assert_string_equal(line, expected);
    assert_int_equal(length, strlen(expected));
    free(line);
    json_decref(message);
}

static void test_messages(void **state)
{
    json_t *id = json_string("x");
    struct zc_error err;

    (void)state;
    expect_encoded(zc_rpc_call(5, "stats", NULL), "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"stats\"}\n");
    expect_encoded(zc_rpc_call(6, "run.wait", json_pack("{s:s}", "id", "a\nb")),
                   "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"run.wait\",\"params\":{\"id\":\"a\\nb\"}}\n");
    expect_encoded(zc_rpc_notification("run.progress", json_pack("{s:f}", "elapsed_s", 0.1)),
                   "{\"jsonrpc\":\"2.0\",\"method\":\"run.progress\",\"params\":{\"elapsed_s\":0.1}}\n");
    expect_encoded(zc_rpc_reply(id, json_true()), "{\"jsonrpc\":\"2.0\",\"result\":true,\"id\":\"x\"}\n");
    expect_encoded(zc_rpc_reply(NULL, json_null()), "{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":null}\n");
    expect_encoded(zc_rpc_reply(id, NULL), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"out of memory\",\"data\":"
                   "{\"field\":null,\"kind\":\"internal\"}},\"id\":\"x\"}\n");
    zc_error_set(&err, ZC_ERR_INVALID, 0, "size", "size: \"\xff\" is bad");
    expect_encoded(zc_rpc_error_reply_from(id, &err), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32602,\"message\":\"size: \\\"?\\\" is bad\","
                   "\"data\":{\"field\":\"size\",\"kind\":\"invalid\"}},\"id\":\"x\"}\n");
    json_decref(id);
}

static void test_every_kind_has_a_code(void **state)
{
    (void)state;
    for (int kind = ZC_ERR_INVALID; kind < ZC_ERR_INTERNAL; kind++)
        assert_int_not_equal(zc_rpc_code_of((enum zc_error_kind)kind), ZC_RPC_INTERNAL);
    assert_int_equal(zc_rpc_code_of(ZC_ERR_INTERNAL), ZC_RPC_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_split_bytes),
        cmocka_unit_test(test_overlong),
        cmocka_unit_test(test_overlong_at_the_real_limit),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_ids_and_notifications),
        cmocka_unit_test(test_examples_of_the_specification),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_big_integers_become_reals),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_every_kind_has_a_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
