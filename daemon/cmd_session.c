/* session.list, session.close */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cmd.h"
#include "zc_json.h"

static json_t *encode(const struct zc_session_info *info)
{
    return json_pack("{s:o, s:o, s:o, s:b, s:f, s:o}", "id", zc_json_count(info->id), "peer", zc_json_text(info->peer), "qps",
                     zc_json_count(info->qps), "welcomed", info->welcomed, "age_s", info->age_s, "outstanding_reads",
                     zc_json_count(info->outstanding_reads));
}

int cmd_session_list(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call, (void)params;
    const struct zc_responder *responder = daemon->responder;
    size_t count = responder ? zc_responder_sessions(responder, NULL, 0) : 0;
    struct zc_session_info *infos = calloc(count ? count : 1, sizeof *infos);
    json_t *rows = json_array();
    if (!infos || !rows) {
        free(infos);
        json_decref(rows);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "session.list: out of memory");
    }
    if (responder)
        zc_responder_sessions(responder, infos, count);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, encode(&infos[i]));
    free(infos);
    *result = json_pack("{s:o}", "sessions", rows);
    return 0;
}

int cmd_session_close(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call;
    uint64_t id;
    int failed = cmd_count(params, "id", &id, err);
    if (failed)
        return failed;
    if (!daemon->responder || !zc_responder_close_session(daemon->responder, id))
        return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "id", "no session %" PRIu64, id);
    *result = json_pack("{s:b}", "closed", 1);
    return 0;
}
