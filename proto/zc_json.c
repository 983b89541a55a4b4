/* See zc_json.h. */
#include "zc_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"

json_t *zc_json_text(const char *text)
{
    json_t *json;
    char *copy;

    if (text == NULL || *text == '\0')
        return json_null();
    copy = strdup(text);
    if (copy == NULL)
        return NULL;
    json = json_string(zc_text_clean(copy));
    free(copy);
    return json;
}

json_t *zc_json_count(uint64_t value)
{
    return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

json_t *zc_json_known(uint64_t value)
{
    return value == 0 ? json_null() : zc_json_count(value);
}

json_t *zc_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *zc_json_time(int64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / 1000000000);
    char date[32];
    struct tm utc;

    if (unix_ns <= 0 || gmtime_r(&seconds, &utc) == NULL || strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc) == 0)
        return json_null();
    return json_sprintf("%s.%03dZ", date, (int)(unix_ns / 1000000 % 1000));
}
