/* zcctl results: the stored documents. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "zc_json.h"

static int delete(struct context *context, char **ids, int count)
{
    int status = EXIT_DONE;

    for (int i = 0; i < count; i++) {
        int one = command_call(context, "result.delete", json_pack("{s:s}", "id", ids[i]), NULL);
        if (one == EXIT_DONE)
            command_output(context)->done(context->out, "deleted", ids[i]);
        else
            status = one;
    }
    return status;
}

static void print_document(FILE *out, json_t *document)
{
    json_dumpf(document, out, ZC_JSON_DOCUMENT);
    fputc('\n', out);
}

static int write_file(const struct context *context, const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fwrite(text, 1, length, file) == length;
    int errnum = errno;

    if (file != NULL && fclose(file) != 0 && written) {
        written = false;
        errnum = errno;
    }
    if (!written)
        command_error(context, "cannot write %s: %s", path, strerror(errnum));
    return written ? EXIT_DONE : EXIT_FAILED;
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
        status = write_file(context, path, text, length);
    free(text);
    return status;
}

int cmd_results(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *path = NULL, *verb;
    const struct args_option own[] = {
        { .name = "output", .letter = 'o', .metavar = "FILE", .help = "get: where the document goes", .value = &path },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 0, INT_MAX), count = args.operand_count;

    if (status >= 0)
        return status;
    verb = count > 0 ? args.operands[0] : "list";
    if (path != NULL && strcmp(verb, "get") != 0) {
        command_error(context, "-o goes with `results get` only");
        return EXIT_USAGE;
    }
    if (strcmp(verb, "list") == 0 && count <= 1)
        return command_call(context, "result.list", NULL, command_output(context)->results);
    if (strcmp(verb, "show") == 0 && count == 2)
        return command_call(context, "result.get", json_pack("{s:s}", "id", args.operands[1]), command_output(context)->result);
    if (strcmp(verb, "get") == 0 && count == 2)
        return get(context, args.operands[1], path);
    if (strcmp(verb, "delete") == 0 && count >= 2)
        return delete(context, args.operands + 1, count - 1);
    command_error(context, "usage: zcctl results %s", command->operands);
    return EXIT_USAGE;
}
