/* Small JSON values by this project's rules: what was not measured or is not known is null, text is UTF-8 whatever the system said,
 * NaN and infinity never get out. Target zc_codec. Any thread. */
#ifndef ZC_JSON_H
#define ZC_JSON_H

#include <jansson.h>
#include <stdint.h>

/* For json_dumps(3) and friends: a document for people and files, and a message for the wire. 15 digits show 0.1 as 0.1. */
#define ZC_JSON_DOCUMENT (JSON_INDENT(2) | JSON_REAL_PRECISION(15))
#define ZC_JSON_MESSAGE (JSON_COMPACT | JSON_REAL_PRECISION(15))

/* New references, NULL without memory. */
json_t *zc_json_text(const char *text);     /* null for NULL and ""; see zc_text_clean() */
json_t *zc_json_count(uint64_t value);      /* null for ZC_UNMEASURED and whatever JSON integers cannot hold (above INT64_MAX) */
json_t *zc_json_known(uint64_t value);      /* null for 0, too: facts of which 0 means unknown */
json_t *zc_json_real(double value);         /* null for NaN and infinity */
json_t *zc_json_time(int64_t unix_ns);      /* RFC 3339 in UTC with milliseconds; null for 0 */

#endif
