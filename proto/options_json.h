/* JSON codec of the run options. Target zc_codec; the daemon decodes, zcctl encodes. Any thread. */
#ifndef ZC_OPTIONS_JSON_H
#define ZC_OPTIONS_JSON_H

#include <jansson.h>

#include "options.h"

/* Decode the params of run.start: an object whose members are option names; sizes as integers or text ("1M"), seconds as
 * numbers, flags as booleans, choices as text; null stands for "not given" where only some strategies take the option. Unknown
 * members and wrong types are errors that name the member. NULL or anything but an object counts as {}. Starts from
 * zc_run_options_init() and ends with zc_run_options_check(). *options is written on success only. 0 or a negative errno. */
int zc_run_options_from_json(const json_t *object, struct zc_run_options *options, struct zc_error *err);

/* Every option, defaults included, under its JSON name; null for what the strategy does not take. A new reference, NULL without
 * memory. */
json_t *zc_run_options_to_json(const struct zc_run_options *options);

/* Only the rows of the table whose bit is set in `given`: what a client sends, so that defaults stay the daemon's. */
json_t *zc_run_options_to_json_given(const struct zc_run_options *options, uint64_t given);

#endif
