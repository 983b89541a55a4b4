/* zcctl compare: two runs or sweeps, or two lists of runs. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "compare.h"
#include "documents.h"

/* "5%", "5", "0.5%" -> a share. 0, or -1: it is none. */
static int parse_percent(const char *text, double *share)
{
    char *end;
    double value;

    if (text[strspn(text, "0123456789.%")] != '\0' || text[0] == '%' || text[0] == '\0')
        return -1;
    value = strtod(text, &end);
    if (end == text || (*end != '\0' && strcmp(end, "%") != 0) || value > 1000)
        return -1;
    *share = value / 100;
    return 0;
}

static int show(struct context *context, const json_t *documents, size_t split, double fail_over, bool gate)
{
    json_t *comparison = compare_documents(documents, split, fail_over);
    double told = number_at(comparison, "verdicts.better") + number_at(comparison, "verdicts.worse") +
                  number_at(comparison, "verdicts.within noise");
    int status = json_is_true(json_object_get(comparison, "failed")) ? EXIT_FAILED : EXIT_DONE;

    if (comparison == NULL) {
        command_error(context, "out of memory");
        return EXIT_FAILED;
    }
    if (json_array_size(json_object_get(comparison, "cells")) == 0) {
        command_error(context, "A and B have no strategy and size in common");
        status = EXIT_FAILED;
    } else {
        command_output(context)->compare(context->out, comparison);
        if (gate && !(told > 0)) {
            command_error(context, "no figure has an interval on both sides: there is nothing that --fail-over could judge");
            status = EXIT_FAILED;
        }
    }
    json_decref(comparison);
    return status;
}

int cmd_compare(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *fail_over = NULL;
    const struct args_option own[] = {
        { .name = "fail-over", .metavar = "PERCENT", .help = "exit with status 1 if a figure is worse by more than this (5%)", .value = &fail_over },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 2, 2);
    double share = 0.05;
    json_t *documents;
    size_t split = 0;

    if (status >= 0)
        return status;
    if (fail_over != NULL && parse_percent(fail_over, &share) != 0) {
        command_error(context, "--fail-over: \"%.64s\" is not a percentage from 0%% to 1000%% (use for instance 5%%)", fail_over);
        return EXIT_USAGE;
    }
    documents = json_array();
    status = documents_load(context, args.operands[0], documents);
    if (status == 0) {
        split = json_array_size(documents);
        status = documents_load(context, args.operands[1], documents);
    }
    if (status == 0)
        status = show(context, documents, split, share, fail_over != NULL);
    json_decref(documents);
    return status;
}
