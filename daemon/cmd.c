/* Decoding of parameters. See cmd.h. */
#include "cmd.h"

#include <errno.h>

int cmd_text(const json_t *params, const char *name, const char **text, struct zc_error *err)
{
    const char *value = json_string_value(json_object_get(params, name));
    if (!value)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%s must be text", name);
    *text = value;
    return 0;
}

int cmd_count(const json_t *params, const char *name, uint64_t *count, struct zc_error *err)
{
    const json_t *value = json_object_get(params, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%s must be a whole number from 0 on", name);
    *count = (uint64_t)json_integer_value(value);
    return 0;
}

int cmd_flag(const json_t *params, const char *name, bool *flag, struct zc_error *err)
{
    const json_t *value = json_object_get(params, name);
    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%s must be true or false", name);
    *flag = json_is_true(value);
    return 0;
}
