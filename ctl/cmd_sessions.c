/* zcctl sessions: who reads from this host. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* 0: it is none. */
static long long number_of(const char *text)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    return *text == '\0' || *end != '\0' || errno != 0 || number < 1 ? 0 : number;
}

static json_t *session_number(const char *text)
{
    return json_integer(number_of(text));
}

static int close_sessions(struct context *context, char **ids, int count)
{
    for (int i = 0; i < count; i++)
        if (number_of(ids[i]) == 0) {
            command_error(context, "\"%.64s\" is not the number of a session (zcctl sessions lists them)", ids[i]);
            return EXIT_USAGE;
        }
    return command_each(context, "session.close", "closed", ids, count, session_number);
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
