/* version */
#include "cmd.h"
#include "peer.h"
#include "version.h"

int cmd_version(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)daemon, (void)call, (void)params, (void)err;
    *result = json_pack("{s:s, s:s, s:i, s:i}", "version", ZC_VERSION, "control_protocol", "2.0", "peer_protocol", ZC_PEER_VERSION,
                        "result_schema", ZC_RESULT_SCHEMA_VERSION);
    return 0;
}
