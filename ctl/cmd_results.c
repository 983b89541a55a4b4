/* zcctl results: the stored documents. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "zc_json.h"

/* All pages as one answer. */
static enum client_status list_pages(struct client *client, json_t *results, struct zc_error *err)
{
    json_t *page, *before = NULL;
    enum client_status status;

    do {
        json_t *params = before != NULL ? json_pack("{s:o}", "before", before) : NULL;
        before = NULL;
        status = client_call(client, "result.list", params, &page, err);
        if (status != CLIENT_OK)
            return status;
        json_array_extend(results, json_object_get(page, "results"));
        if (json_is_string(json_object_get(page, "next")))
            before = json_incref(json_object_get(page, "next"));
        json_decref(page);
    } while (before != NULL);
    return CLIENT_OK;
}

static int list(struct context *context)
{
    struct client *client = NULL;
    struct zc_error err;
    json_t *results = json_array(), *answer;
    enum client_status status = client_open(context->socket_path, &client, &err);

    if (status == CLIENT_OK)
        status = list_pages(client, results, &err);
    client_close(client);
    answer = json_pack("{s:o}", "results", results);
    if (status == CLIENT_OK)
        command_output(context)->results(context->out, answer);
    json_decref(answer);
    return status == CLIENT_OK ? EXIT_DONE : command_failed(context, status, &err);
}

static void print_document(FILE *out, json_t *document)
{
    json_dumpf(document, out, ZC_JSON_DOCUMENT);
    fputc('\n', out);
}

/* Into memory first: a file is not touched for a document that does not exist. */
static int get(struct context *context, const char *id, const char *path)
{
    char *text = NULL;
    size_t length = 0;
    FILE *standard = context->out, *memory = open_memstream(&text, &length);
    int status;

    if (memory == NULL) {
        command_error(context, "out of memory");
        return EXIT_FAILED;
    }
    context->out = memory;
    status = command_call(context, "result.get", json_pack("{s:s}", "id", id), print_document);
    context->out = standard;
    fclose(memory);
    if (status == EXIT_DONE && path == NULL)
        fwrite(text, 1, length, standard);
    else if (status == EXIT_DONE)
        status = command_write_file(context, path, text, length);
    free(text);
    return status;
}

/* The next piece into `out`; *offset moves on, -1 at the end. */
static enum client_status trace_piece(struct client *client, const char *id, json_int_t *offset, FILE *out, struct zc_error *err)
{
    json_t *piece, *next;
    enum client_status status = client_call(client, "result.trace", json_pack("{s:s, s:I}", "id", id, "offset", *offset), &piece, err);

    if (status != CLIENT_OK)
        return status;
    fwrite(json_string_value(json_object_get(piece, "text")), 1, json_string_length(json_object_get(piece, "text")), out);
    next = json_object_get(piece, "next");
    *offset = json_is_integer(next) && json_integer_value(next) > *offset ? json_integer_value(next) : -1;
    json_decref(piece);
    return CLIENT_OK;
}

/* Like get() into memory first. */
static int trace(struct context *context, const char *id, const char *path)
{
    struct client *client = NULL;
    struct zc_error err;
    char *text = NULL;
    size_t length = 0;
    json_int_t offset = 0;
    FILE *memory = open_memstream(&text, &length);
    enum client_status status = client_open(context->socket_path, &client, &err);
    int result = EXIT_DONE;

    while (memory != NULL && status == CLIENT_OK && offset >= 0)
        status = trace_piece(client, id, &offset, memory, &err);
    client_close(client);
    if (memory == NULL || fclose(memory) != 0) {
        command_error(context, "out of memory");
        result = EXIT_FAILED;
    } else if (status != CLIENT_OK) {
        result = command_failed(context, status, &err);
    } else if (path != NULL) {
        result = command_write_file(context, path, text, length);
    } else {
        fwrite(text, 1, length, context->out);
    }
    free(text);
    return result;
}

int cmd_results(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *path = NULL, *verb;
    const struct args_option own[] = {
        { .name = "output", .letter = 'o', .metavar = "FILE", .help = "get, trace: where the document goes", .value = &path },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 0, INT_MAX), count = args.operand_count;

    if (status >= 0)
        return status;
    verb = count > 0 ? args.operands[0] : "list";
    if (path != NULL && strcmp(verb, "get") != 0 && strcmp(verb, "trace") != 0) {
        command_error(context, "-o goes with `results get` and `results trace` only");
        return EXIT_USAGE;
    }
    if (strcmp(verb, "list") == 0 && count <= 1)
        return list(context);
    if (strcmp(verb, "show") == 0 && count == 2)
        return command_call(context, "result.get", json_pack("{s:s}", "id", args.operands[1]), command_output(context)->result);
    if (strcmp(verb, "get") == 0 && count == 2)
        return get(context, args.operands[1], path);
    if (strcmp(verb, "trace") == 0 && count == 2)
        return trace(context, args.operands[1], path);
    if (strcmp(verb, "delete") == 0 && count >= 2)
        return command_each(context, "result.delete", "deleted", args.operands + 1, count - 1, NULL);
    return command_usage(context, command, verb);
}
