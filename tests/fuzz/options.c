/* Run options as text and as JSON (proto/options*.c): what is accepted is in range, and comes back from its JSON as it was. The first
 * byte: odd for text, lines of NAME=VALUE, else a JSON object. */
#include <string.h>

#include "fuzz.h"
#include "options_json.h"
#include "strategies.h"

static void round_trip(const struct zc_run_options *options)
{
    struct zc_run_options again;
    struct zc_error err = { 0 };
    json_t *json = zc_run_options_to_json(options);
    HOLDS(json);
    if (zc_run_options_from_json(json, &again, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    json_t *second = zc_run_options_to_json(&again);
    HOLDS(json_equal(json, second));
    json_decref(json);
    json_decref(second);
}

static void from_json(const char *text, size_t size)
{
    struct zc_run_options options;
    struct zc_error err = { 0 };
    json_t *json = json_loadb(text, size, JSON_DECODE_ANY, NULL);
    if (!json)
        return;
    if (zc_run_options_from_json(json, &options, &err) == 0)
        round_trip(&options);
    else
        HOLDS(err.kind == ZC_ERR_INVALID && *err.message && !strchr(err.message, '\n'));
    json_decref(json);
}

static uint64_t parse_line(char *line, struct zc_run_options *options)
{
    struct zc_error err = { 0 };
    char host[ZC_PEER_MAX], size[32];
    uint16_t port;
    uint64_t bytes;
    char *value = strchr(line, '=');
    if (value)
        *value++ = 0;
    const struct zc_option *option = zc_option_find(line, strlen(line));
    if (!option) {
        zc_option_nearest(line);
        return 0;
    }
    if (value && zc_size_parse(value, &bytes) == 0)
        HOLDS(zc_size_parse(zc_size_format(bytes, size, sizeof size), &bytes) == 0);
    if (value)
        zc_peer_split(value, host, &port, &err);
    if (zc_option_parse(option, value, options, &err) != 0) {
        HOLDS(*err.message && !strchr(err.message, '\n'));
        return 0;
    }
    size_t count;
    return UINT64_C(1) << (option - zc_options(&count));
}

static void from_text(char *text)
{
    struct zc_run_options options;
    struct zc_error err = { 0 };
    uint64_t given = 0;
    char *rest = NULL;
    zc_run_options_init(&options);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        given |= parse_line(line, &options);
    if (zc_run_options_check(&options, given, &err) == 0)
        round_trip(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size);
    HOLDS(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] % 2)
        from_text(text);
    else
        from_json(text, size - 1);
    free(text);
    return 0;
}
