/* device.list */
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "device.h"
#include "result_json.h"

enum { PORTS_MAX = 128 };

static json_t *encode(const struct zc_device_info *info, const struct zc_device_info *used)
{
    json_t *row = zc_device_info_to_json(info);
    bool in_use = used && strcmp(info->name, used->name) == 0 && info->port == used->port;
    if (row && json_object_set_new(row, "in_use", json_boolean(in_use)) != 0) {
        json_decref(row);
        return NULL;
    }
    return row;
}

int cmd_device_list(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)call, (void)params;
    const struct zc_device_info *used = daemon->device ? zc_device_info(daemon->device) : NULL;
    struct zc_device_info *infos = calloc(PORTS_MAX, sizeof *infos);
    size_t count = 0;
    int failed = infos ? zc_device_list(infos, PORTS_MAX, &count, err) : 0;
    if (!failed) {
        json_t *rows = infos ? json_array() : NULL;
        for (size_t i = 0; rows && i < count && i < PORTS_MAX; i++)
            json_array_append_new(rows, encode(&infos[i], used));
        *result = rows ? json_pack("{s:o}", "devices", rows) : NULL;
    }
    free(infos);
    return failed;
}
