/* zcctl runs: what is queued and active; cancelling without waiting. */
#include <limits.h>
#include <string.h>

#include "command.h"

static int cancel(struct context *context, char **ids, int count)
{
    int status = EXIT_DONE;

    for (int i = 0; i < count; i++) {
        int one = command_call(context, "run.cancel", json_pack("{s:s}", "id", ids[i]), NULL);
        if (one == EXIT_DONE)
            command_output(context)->done(context->out, "cancelled", ids[i]);
        else
            status = one;
    }
    return status;
}

int cmd_runs(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 0, INT_MAX);
    const char *verb = args.operand_count > 0 ? args.operands[0] : "list";

    if (status >= 0)
        return status;
    if (strcmp(verb, "list") == 0 && args.operand_count <= 1)
        return command_call(context, "run.list", NULL, command_output(context)->runs);
    if (strcmp(verb, "cancel") == 0 && args.operand_count >= 2)
        return cancel(context, args.operands + 1, args.operand_count - 1);
    return command_usage(context, command, verb);
}
