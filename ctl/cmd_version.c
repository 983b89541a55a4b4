/* zcctl version: ours and the daemon's. Without a daemon it still prints ours. */
#include "command.h"
#include "version.h"

int cmd_version(struct context *context, const struct command *command, int argc, char **argv)
{
    struct args args = { 0 };
    struct client *client = NULL;
    struct zc_error err;
    json_t *answer = NULL, *versions;
    enum client_status rc;
    int status = command_args(context, command, &args, argc, argv, 0, 0);

    if (status >= 0)
        return status;
    rc = client_open(context->socket_path, &client, &err);
    if (rc == CLIENT_OK)
        rc = client_call(client, "version", NULL, &answer, &err);
    client_close(client);
    versions = json_pack("{s:s, s:o}", "zcctl", ZC_VERSION, "zcrdmad", answer != NULL ? answer : json_null());
    command_output(context)->version(context->out, versions);
    json_decref(versions);
    return rc == CLIENT_OK ? EXIT_DONE : command_failed(context, rc, &err);
}
