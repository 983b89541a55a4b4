/* zcctl sessions: who reads from this host. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int close_sessions(struct context *context, char **ids, int count)
{
    int status = EXIT_DONE;

    for (int i = 0; i < count; i++) {
        char *end;
        errno = 0;
        long long id = strtoll(ids[i], &end, 10);
        if (*ids[i] == '\0' || *end != '\0' || errno != 0 || id < 1) {
            command_error(context, "\"%.64s\" is not the number of a session (zcctl sessions lists them)", ids[i]);
            return EXIT_USAGE;
        }
        int one = command_call(context, "session.close", json_pack("{s:I}", "id", (json_int_t)id), NULL);
        if (one == EXIT_DONE)
            command_output(context)->done(context->out, "closed", ids[i]);
        else
            status = one;
    }
    return status;
}

int cmd_sessions(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    int status = command_args(context, command, &args, argc, argv, 0, INT_MAX);
    const char *verb = args.operand_count > 0 ? args.operands[0] : "list";

    if (status >= 0)
        return status;
    if (strcmp(verb, "list") == 0 && args.operand_count <= 1)
        return command_call(context, "session.list", NULL, command_output(context)->sessions);
    if (strcmp(verb, "close") == 0 && args.operand_count >= 2)
        return close_sessions(context, args.operands + 1, args.operand_count - 1);
    return command_usage(context, command, verb);
}
