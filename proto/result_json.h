/* JSON of a result, of a device and of an error: the document of result.schema.json. Target zc_codec. Any thread. */
#ifndef ZC_RESULT_JSON_H
#define ZC_RESULT_JSON_H

#include <jansson.h>

#include "result.h"

/* New references; NULL without memory. */
json_t *zc_result_to_json(const struct zc_result *result);
json_t *zc_device_info_to_json(const struct zc_device_info *info);
json_t *zc_environment_to_json(const struct zc_environment *environment);
json_t *zc_peer_info_to_json(const struct zc_peer_info *peer);
json_t *zc_notice_to_json(const struct zc_device_info *device);     /* what must stand beside figures of the software device, or null */
json_t *zc_error_to_json(const struct zc_error *err);   /* {"kind", "message", "field"|null, "errno"|null}; json null for NONE */

#endif
