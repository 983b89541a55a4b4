/* zcctl doctor: what would spoil a measurement, and what to do about it. */
#include <string.h>

#include "command.h"
#include "format.h"

static bool something_bad(const json_t *answer)
{
    size_t index;
    json_t *row;

    json_array_foreach (json_object_get(answer, "findings"), index, row)
        if (strcmp(text_at(row, "level"), "bad") == 0)
            return true;
    return false;
}

static int examine(struct context *context, json_t *params)
{
    struct client *client = NULL;
    struct zc_error err;
    json_t *answer;
    enum client_status status = client_open(context->socket_path, &client, &err);
    int result;

    if (status == CLIENT_OK)
        status = client_call(client, "doctor", params, &answer, &err);
    else
        json_decref(params);
    client_close(client);
    if (status != CLIENT_OK)
        return command_failed(context, status, &err);
    result = something_bad(answer) ? EXIT_FAILED : EXIT_DONE;
    command_output(context)->doctor(context->out, answer);
    json_decref(answer);
    return result;
}

int cmd_doctor(struct context *context, const struct command *command, int argc, char **argv)
{
    const char *peer = NULL;
    const struct args_option own[] = {
        { .name = "peer", .metavar = "HOST", .help = "connect to this peer, too: HOST[:PORT] or self", .value = &peer },
        { .name = NULL },
    };
    struct args args = { .own = own };
    int status = command_args(context, command, &args, argc, argv, 0, 0);

    if (status >= 0)
        return status;
    return examine(context, peer != NULL ? json_pack("{s:s}", "peer", peer) : NULL);
}
