/* JSON of a probe: the document of probe.schema.json. Target zc_codec. Any thread. */
#ifndef ZC_PROBE_JSON_H
#define ZC_PROBE_JSON_H

#include <jansson.h>

#include "probe.h"

/* A new reference; NULL without memory. */
json_t *zc_probe_to_json(const struct zc_probe *probe);

#endif
