/* JSON of a sweep: the params of sweep.start, and the document of sweep.schema.json both ways. Target zc_codec. Any thread. */
#ifndef ZC_SWEEP_JSON_H
#define ZC_SWEEP_JSON_H

#include <jansson.h>

#include "recommend.h"
#include "sweep.h"

/* Members are options of a run with one value or an array, or text as on the command line ("4K..256M", "1,4"), and trials, budget
 * (seconds or "5m"), precision (0.02 or "2%"), steps. Unknown members are errors that name them. *options on success only. */
int zc_sweep_options_from_json(const json_t *object, struct zc_sweep_options *options, struct zc_error *err);

/* The document; a new reference, NULL without memory. */
json_t *zc_sweep_to_json(const struct zc_sweep *sweep);
/* What is needed to go on with it or to advise: options, cells with their trials. Initialises *sweep; destroy it after success. -EINVAL
 * for a document that is none of a sweep. */
int zc_sweep_from_json(const json_t *document, struct zc_sweep *sweep, struct zc_error *err);

json_t *zc_recommendation_to_json(const struct zc_recommendation *recommendation);

#endif
