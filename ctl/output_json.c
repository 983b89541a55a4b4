/* What --json prints: the daemon's answers, indented. */
#include "output.h"

#include "zc_json.h"

static void print(FILE *out, json_t *json)
{
    json_dumpf(json, out, ZC_JSON_DOCUMENT | JSON_ENCODE_ANY);
    fputc('\n', out);
}

static void print_done(FILE *out, const char *verb, const char *what)
{
    json_t *json = json_pack("{s:s, s:b}", "id", what, verb, 1);

    print(out, json);
    json_decref(json);
}

const struct output output_json = {
    .started = print,
    .result = print,
    .comparison = print,
    .compare = print,
    .results = print,
    .runs = print,
    .stats = print,
    .sessions = print,
    .devices = print,
    .doctor = print,
    .recommendation = print,
    .strategies = print,
    .version = print,
    .done = print_done,
};
