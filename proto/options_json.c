/* The run options from and to JSON, by the option table: see options_json.h. */
#include "options_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zc_json.h"

/* A value of the wrong type, as JSON, short enough for a message. */
static int wrong_type(const struct zc_option *option, const json_t *value, struct zc_error *err)
{
    char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    char text[72];

    snprintf(text, sizeof(text), "%.60s%s", dump != NULL ? dump : "this", dump != NULL && strlen(dump) > 60 ? "..." : "");
    free(dump);
    return zc_option_wrong_type(option, text, err);
}

/* A size or count. Reals without a fraction are integers, as in JSON Schema: other encoders write 1e6, and the decoder of rpc.c
 * turns integers of more than 64 bits into reals, so that they end in a range error here and not in a syntax error there. */
static int integer_from_json(const struct zc_option *option, const json_t *value, struct zc_run_options *options,
                             struct zc_error *err)
{
    double real = json_number_value(value);
    char text[32];

    if (json_is_real(value) && trunc(real) != real)
        return wrong_type(option, value, err);
    snprintf(text, sizeof(text), "%.15g", real);
    if (real < 0 || real >= 0x1p63)
        return zc_option_out_of_range(option, text, real < 0, err);
    return zc_option_store_integer(option, json_is_integer(value) ? (uint64_t)json_integer_value(value) : (uint64_t)real, options,
                                   err);
}

static int value_from_json(const struct zc_option *option, const json_t *value, struct zc_run_options *options,
                           struct zc_error *err)
{
    switch (option->type) {
    case ZC_OPTION_SIZE:
        if (json_is_string(value))
            return zc_option_parse(option, json_string_value(value), options, err);
        /* fall through */
    case ZC_OPTION_COUNT:
        if (json_is_number(value))
            return integer_from_json(option, value, options, err);
        break;
    case ZC_OPTION_SECONDS:
        if (json_is_number(value))
            return zc_option_store_seconds(option, json_number_value(value), options, err);
        break;
    case ZC_OPTION_FLAG:
        if (json_is_boolean(value))
            return zc_option_parse(option, json_is_true(value) ? "true" : "false", options, err);
        break;
    case ZC_OPTION_CHOICE:
    case ZC_OPTION_TEXT:
        if (json_is_string(value))
            return zc_option_parse(option, json_string_value(value), options, err);
        break;
    }
    return wrong_type(option, value, err);
}

static int unknown_option(const char *name, struct zc_error *err)
{
    const char *nearest = zc_option_nearest(name);

    if (nearest != NULL)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, name, "unknown option \"%.100s\" (did you mean %s?)", name, nearest);
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, name, "unknown option \"%.100s\"", name);
}

int zc_run_options_from_json(const json_t *object, struct zc_run_options *options, struct zc_error *err)
{
    struct zc_run_options decoded;
    const struct zc_option *table;
    uint64_t given = 0;
    size_t count;
    const char *name;
    json_t *value;
    int rc;

    zc_run_options_init(&decoded);
    table = zc_options(&count);
    json_object_foreach ((json_t *)object, name, value) {
        const struct zc_option *option = zc_option_find(name, strlen(name));
        if (option == NULL || strcmp(option->name, name) != 0)      /* JSON has one spelling */
            return unknown_option(name, err);
        if (json_is_null(value) && option->strategies != ZC_ALL_STRATEGIES)     /* not taken, as the echo says it */
            continue;
        rc = value_from_json(option, value, &decoded, err);
        if (rc != 0)
            return rc;
        given |= UINT64_C(1) << (option - table);
    }
    rc = zc_run_options_check(&decoded, given, err);
    if (rc == 0)
        *options = decoded;
    return rc;
}

static json_t *value_to_json(const struct zc_option *option, const struct zc_run_options *options)
{
    const void *field = (const char *)options + option->field;
    int choice;

    if (!zc_option_taken(option, options->strategy))
        return json_null();
    switch (option->type) {
    case ZC_OPTION_SIZE:
        if (option->sweep_field != 0 && *(const uint64_t *)field == 0 && *((const char *)options + option->sweep_field) != '\0')
            return json_sprintf("sweep:%s", (const char *)options + option->sweep_field);
        return zc_json_count(*(const uint64_t *)field);
    case ZC_OPTION_COUNT:
        return zc_json_count(*(const uint64_t *)field);
    case ZC_OPTION_SECONDS:
        return zc_json_real(*(const double *)field);
    case ZC_OPTION_FLAG:
        return json_boolean(*(const bool *)field);
    case ZC_OPTION_CHOICE:
        choice = *(const int *)field;
        return choice < 0 ? json_null() : json_string(option->choices[choice]);
    case ZC_OPTION_TEXT:
        break;
    }
    return zc_json_text(field);
}

json_t *zc_run_options_to_json_given(const struct zc_run_options *options, uint64_t given)
{
    size_t count;
    const struct zc_option *table = zc_options(&count);
    json_t *object = json_object();

    for (size_t i = 0; object != NULL && i < count; i++) {
        if ((given >> i & 1) == 0)
            continue;
        if (json_object_set_new(object, table[i].name, value_to_json(&table[i], options)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *zc_run_options_to_json(const struct zc_run_options *options)
{
    return zc_run_options_to_json_given(options, UINT64_MAX);
}
