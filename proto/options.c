/* The table of run options and what is done with a row of it: parse, check, store. See options.h. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

const char *const zc_validate_names[] = {
    [ZC_VALIDATE_NONE] = "none", [ZC_VALIDATE_FIRST] = "first", [ZC_VALIDATE_ALL] = "all", NULL,
};
const char *const zc_wait_names[] = { [ZC_WAIT_POLL] = "poll", [ZC_WAIT_EVENT] = "event", NULL };
const char *const zc_offset_names[] = { [ZC_OFFSET_ROTATE] = "rotate", [ZC_OFFSET_FIXED] = "fixed", NULL };
const char *const zc_buffers_names[] = { [ZC_BUFFERS_REUSE] = "reuse", [ZC_BUFFERS_FRESH] = "fresh", NULL };
const char *const zc_relaxed_ordering_names[] = {
    [ZC_RELAXED_AUTO] = "auto", [ZC_RELAXED_ON] = "on", [ZC_RELAXED_OFF] = "off", NULL,
};
const char *const zc_family_names[] = {
    [ZC_FAMILY_AUTO] = "auto", [ZC_FAMILY_BASIC] = "basic", [ZC_FAMILY_EXTENDED] = "extended", NULL,
};
const char *const zc_pages_names[] = {
    [ZC_PAGES_DEFAULT] = "default", [ZC_PAGES_THP] = "thp", [ZC_PAGES_2M] = "2m", [ZC_PAGES_1G] = "1g", NULL,
};

#define FIELD(name) offsetof(struct zc_run_options, name)
#define STRATEGY(id) (UINT32_C(1) << (id))
#define COPY_STRATEGIES (STRATEGY(ZC_COPY_BLOCKING) | STRATEGY(ZC_COPY_NON_BLOCKING) | STRATEGY(ZC_COPY_ASYNC))
#define PIPELINE_STRATEGIES (STRATEGY(ZC_PIPELINE_BLOCKING) | STRATEGY(ZC_PIPELINE_NON_BLOCKING) | STRATEGY(ZC_PIPELINE_ASYNC))
#define IDEAL_STRATEGIES (STRATEGY(ZC_IDEAL_BLOCKING) | STRATEGY(ZC_IDEAL_NON_BLOCKING))
#define CACHED_STRATEGIES (STRATEGY(ZC_CACHED_BLOCKING) | STRATEGY(ZC_CACHED_NON_BLOCKING) | STRATEGY(ZC_CACHED_ASYNC))
#define ODP_STRATEGIES (STRATEGY(ZC_ODP_BLOCKING) | STRATEGY(ZC_ODP_NON_BLOCKING) | STRATEGY(ZC_ODP_ASYNC))
#define HYBRID_STRATEGIES (STRATEGY(ZC_HYBRID_BLOCKING) | STRATEGY(ZC_HYBRID_NON_BLOCKING) | STRATEGY(ZC_HYBRID_ASYNC))
#define STAGING_STRATEGIES (COPY_STRATEGIES | HYBRID_STRATEGIES)
#define ASYNC_POOLS \
    (STRATEGY(ZC_COPY_ASYNC) | STRATEGY(ZC_NAIVE_ASYNC) | STRATEGY(ZC_PIPELINE_ASYNC) | STRATEGY(ZC_CACHED_ASYNC) | \
     STRATEGY(ZC_HYBRID_ASYNC))
#define ASYNC_STRATEGIES (ASYNC_POOLS | STRATEGY(ZC_ODP_ASYNC))
#define COPYING_THREADS (STRATEGY(ZC_COPY_NON_BLOCKING) | STRATEGY(ZC_HYBRID_NON_BLOCKING))
#define DEREGISTERING_THREADS (STRATEGY(ZC_NAIVE_NON_BLOCKING) | STRATEGY(ZC_PIPELINE_NON_BLOCKING) | STRATEGY(ZC_HYBRID_NON_BLOCKING))
#define REGISTERING_THREADS (DEREGISTERING_THREADS | STRATEGY(ZC_CACHED_NON_BLOCKING))
#define EVERY_STRATEGY ((UINT32_C(1) << ZC_STRATEGY_COUNT) - 1)

static const struct zc_option table[] = {
    { .name = "strategy", .metavar = "NAME", .type = ZC_OPTION_CHOICE, .field = FIELD(strategy),
      .choices = zc_strategy_names, .find = zc_strategy_find, .strategies = ZC_ALL_STRATEGIES,
      .help = "way of reading remote memory that is measured" },
    { .name = "peer", .metavar = "HOST[:PORT]", .type = ZC_OPTION_TEXT, .field = FIELD(peer), .max = ZC_PEER_MAX,
      .strategies = ZC_ALL_STRATEGIES, .help = "host whose region is read; self is the daemon's own device" },
    { .name = "size", .letter = 's', .metavar = "SIZE", .type = ZC_OPTION_SIZE, .field = FIELD(size_bytes), .default_text = "1M",
      .min = 1, .max = TIB, .strategies = ZC_ALL_STRATEGIES, .help = "bytes of one request" },
    { .name = "warmup", .metavar = "SECONDS", .type = ZC_OPTION_SECONDS, .field = FIELD(warmup_s), .default_text = "1",
      .min_s = 0, .max_s = 3600, .strategies = ZC_ALL_STRATEGIES, .help = "warm-up before each measured window" },
    { .name = "measure", .letter = 'D', .metavar = "SECONDS", .type = ZC_OPTION_SECONDS, .field = FIELD(measure_s), .default_text = "10",
      .min_s = 0.001, .max_s = 86400, .strategies = ZC_ALL_STRATEGIES, .help = "length of each measured window" },
    { .name = "skip_validation", .type = ZC_OPTION_FLAG, .field = FIELD(skip_validation), .default_text = "false",
      .strategies = ZC_ALL_STRATEGIES, .help = "do not compare the bytes read; the same as validate none" },
    { .name = "skip_latency", .type = ZC_OPTION_FLAG, .field = FIELD(skip_latency), .default_text = "false",
      .strategies = ZC_ALL_STRATEGIES, .help = "do not measure latency" },
    { .name = "skip_throughput", .type = ZC_OPTION_FLAG, .field = FIELD(skip_throughput), .default_text = "false",
      .strategies = ZC_ALL_STRATEGIES, .help = "do not measure throughput" },
    { .name = "memory_max", .metavar = "SIZE", .type = ZC_OPTION_SIZE, .field = FIELD(memory_max_bytes),
      .default_text = "1G", .min = 1, .max = TIB, .strategies = ZC_ALL_STRATEGIES,
      .help = "user buffers at most, never more than half of the free memory" },
    { .name = "operations_max", .letter = 't', .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(operations_max),
      .default_text = "64", .min = 1, .max = 65536, .strategies = ZC_ALL_STRATEGIES,
      .help = "requests in flight at most; blocking strategies have one" },
    { .name = "mr_size", .metavar = "SIZE", .type = ZC_OPTION_SIZE, .field = FIELD(mr_size_bytes), .default_text = "256K",
      .min = 1, .max = GIB, .strategies = STAGING_STRATEGIES,
      .help = "chunk of what is copied: one READ into staging memory" },
    { .name = "mr_count", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(mr_count), .default_text = "0", .min = 0,
      .max = 65536, .strategies = STAGING_STRATEGIES, .help = "slots of staging memory; 0 is as many as are useful" },
    { .name = "chunk_size", .metavar = "SIZE", .type = ZC_OPTION_SIZE, .field = FIELD(chunk_size_bytes), .default_text = "2M",
      .other_default = "512K", .others = IDEAL_STRATEGIES | ODP_STRATEGIES, .others_name = "ideal and odp", .min = 1, .max = GIB,
      .strategies = PIPELINE_STRATEGIES | CACHED_STRATEGIES | ODP_STRATEGIES | HYBRID_STRATEGIES | IDEAL_STRATEGIES,
      .help = "chunk of what lands in the user's buffer: one READ" },
    { .name = "cache_max", .metavar = "SIZE", .type = ZC_OPTION_SIZE, .field = FIELD(cache_max_bytes), .default_text = "1G",
      .min = 1, .max = TIB, .strategies = CACHED_STRATEGIES, .help = "memory that the registration cache keeps registered at most" },
    { .name = "threshold", .metavar = "SIZE|sweep:ID", .type = ZC_OPTION_SIZE, .field = FIELD(threshold_bytes), .default_text = "256K",
      .min = 0, .max = TIB, .sweep_field = FIELD(threshold_sweep), .strategies = HYBRID_STRATEGIES,
      .help = "smaller requests are copied, others registered; sweep:ID is where that stored sweep saw registering win" },
    { .name = "concurrency", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(concurrency), .default_text = "1",
      .min = 1, .max = 64, .strategies = COPYING_THREADS | ASYNC_POOLS,
      .help = "threads that copy; with async the pool that copies or registers" },
    { .name = "concurrency_reg", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(concurrency_reg), .default_text = "1",
      .min = 1, .max = 64, .strategies = REGISTERING_THREADS, .help = "threads that register" },
    { .name = "concurrency_dereg", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(concurrency_dereg),
      .default_text = "1", .min = 1, .max = 64, .strategies = DEREGISTERING_THREADS, .help = "threads that deregister" },
    { .name = "qps", .letter = 'q', .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(qps), .default_text = "1", .min = 1, .max = 64,
      .strategies = ZC_ALL_STRATEGIES, .help = "queue pairs that the chunks are spread over" },
    { .name = "validate", .metavar = "none|first|all", .type = ZC_OPTION_CHOICE, .field = FIELD(validate),
      .default_text = "first", .choices = zc_validate_names, .strategies = ZC_ALL_STRATEGIES,
      .help = "which requests are compared with the peer's pattern" },
    { .name = "wait", .metavar = "poll|event", .type = ZC_OPTION_CHOICE, .field = FIELD(wait), .default_text = "poll",
      .choices = zc_wait_names, .strategies = EVERY_STRATEGY & ~ASYNC_STRATEGIES,
      .help = "poll for completions or sleep until the device tells; async always sleeps" },
    { .name = "footprint", .metavar = "SIZE", .type = ZC_OPTION_SIZE, .field = FIELD(footprint_bytes),
      .default_text = "256M", .min = 1, .max = TIB, .strategies = ZC_ALL_STRATEGIES,
      .help = "user buffers cycled through, so that they outgrow the caches" },
    { .name = "offset", .metavar = "rotate|fixed", .type = ZC_OPTION_CHOICE, .field = FIELD(offset),
      .default_text = "rotate", .choices = zc_offset_names, .strategies = ZC_ALL_STRATEGIES,
      .help = "advance through the peer's region or read one place" },
    { .name = "buffers", .metavar = "reuse|fresh", .type = ZC_OPTION_CHOICE, .field = FIELD(buffers),
      .default_text = "reuse", .choices = zc_buffers_names, .strategies = ZC_ALL_STRATEGIES,
      .help = "user buffers touched beforehand, or never-touched pages for each request" },
    { .name = "consume", .type = ZC_OPTION_FLAG, .field = FIELD(consume), .default_text = "false",
      .strategies = ZC_ALL_STRATEGIES, .help = "read every byte once after it is available (a checksum)" },
    { .name = "pieces", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(pieces), .default_text = "1", .min = 1, .max = 4096,
      .strategies = ZC_ALL_STRATEGIES, .help = "pieces of user memory that a request is scattered over" },
    { .name = "align", .metavar = "BYTES", .type = ZC_OPTION_SIZE, .field = FIELD(align_bytes), .default_text = "0", .min = 0,
      .max = 4096, .strategies = ZC_ALL_STRATEGIES,
      .help = "each piece is aligned to so many bytes and no better (1, 2, 4, ... 4096); 0 is as it comes" },
    { .name = "pages", .metavar = "default|thp|2m|1g", .type = ZC_OPTION_CHOICE, .field = FIELD(pages),
      .default_text = "default", .choices = zc_pages_names, .strategies = ZC_ALL_STRATEGIES,
      .help = "pages of user buffers and staging memory" },
    { .name = "relaxed_ordering", .metavar = "on|off|auto", .type = ZC_OPTION_CHOICE, .field = FIELD(relaxed_ordering),
      .default_text = "auto", .choices = zc_relaxed_ordering_names, .strategies = ZC_ALL_STRATEGIES,
      .help = "let PCIe writes pass each other (IBV_ACCESS_RELAXED_ORDERING)" },
    { .name = "post", .metavar = "auto|basic|extended", .type = ZC_OPTION_CHOICE, .field = FIELD(post), .default_text = "auto",
      .choices = zc_family_names, .strategies = ZC_ALL_STRATEGIES,
      .help = "verbs to post and poll with: ibv_post_send, or ibv_wr_* where offered" },
    { .name = "tos", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(tos), .default_text = "0", .min = 0, .max = 255,
      .strategies = ZC_ALL_STRATEGIES, .help = "type of service of the packets; 0 is the system's choice" },
    { .name = "device", .letter = 'd', .metavar = "NAME", .type = ZC_OPTION_TEXT, .field = FIELD(device), .default_text = "auto",
      .max = ZC_DEVICE_MAX, .strategies = ZC_ALL_STRATEGIES, .help = "RDMA device that reads; auto is the daemon's own" },
    { .name = "threads", .metavar = "N", .type = ZC_OPTION_COUNT, .field = FIELD(threads), .default_text = "1", .min = 1, .max = 64,
      .strategies = ZC_ALL_STRATEGIES, .help = "independent callers, each with QPs and buffers of its own" },
    { .name = "logging", .type = ZC_OPTION_FLAG, .field = FIELD(logging), .default_text = "false",
      .strategies = ZC_ALL_STRATEGIES, .help = "record each stage of each chunk in a trace (zcctl results trace)" },
    { .name = "numa", .metavar = "auto|N|none", .type = ZC_OPTION_TEXT, .field = FIELD(numa), .default_text = "auto",
      .max = ZC_NUMA_MAX, .strategies = ZC_ALL_STRATEGIES, .help = "NUMA node of all threads and memory; auto is the device's" },
};
enum { OPTION_COUNT = sizeof(table) / sizeof(table[0]) };
_Static_assert(OPTION_COUNT <= 64, "`given` has a bit a row");
_Static_assert(ZC_STRATEGY_COUNT <= 32, "`strategies` has a bit a strategy");

/* What a value of each type is called in errors, and examples. */
static const char *const type_words[] = {
    [ZC_OPTION_SIZE] = "a size (use for instance 64K, 1M, 1MiB or 1000000)",
    [ZC_OPTION_SECONDS] = "a number of seconds (use for instance 10 or 0.5)",
    [ZC_OPTION_COUNT] = "a whole number",
    [ZC_OPTION_FLAG] = "true or false",
    [ZC_OPTION_CHOICE] = "text",
    [ZC_OPTION_TEXT] = "text",
};

const struct zc_option *zc_options(size_t *count)
{
    *count = OPTION_COUNT;
    return table;
}

uint64_t zc_option_bit(const char *name)
{
    return UINT64_C(1) << (zc_option_find(name, strlen(name)) - table);
}

static void *field_of(const struct zc_option *option, struct zc_run_options *options)
{
    return (char *)options + option->field;
}

static char *sweep_of(const struct zc_option *option, struct zc_run_options *options)
{
    return (char *)options + option->sweep_field;
}

/* A value as the user wrote it, short enough for a message. */
struct quoted {
    char text[80];
};
static struct quoted quote(const char *value)
{
    struct quoted quoted;
    bool long_one = strlen(value) > 64;

    snprintf(quoted.text, sizeof(quoted.text), "\"%.*s%s\"", long_one ? 60 : 64, value, long_one ? "..." : "");
    return quoted;
}

int zc_option_wrong_type(const struct zc_option *option, const char *value, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, option->name, "%s: %s is not %s%s", option->name, value,
                        type_words[option->type], option->sweep_field != 0 ? ", nor sweep:ID" : "");
}

int zc_option_out_of_range(const struct zc_option *option, const char *value, bool below, struct zc_error *err)
{
    char limit[32];

    if (option->type == ZC_OPTION_SIZE)
        zc_size_format(below ? option->min : option->max, limit, sizeof(limit));
    else if (option->type == ZC_OPTION_SECONDS)
        snprintf(limit, sizeof(limit), "%g", below ? option->min_s : option->max_s);
    else
        snprintf(limit, sizeof(limit), "%llu", (unsigned long long)(below ? option->min : option->max));
    return zc_error_set(err, ZC_ERR_INVALID, ERANGE, option->name, "%s: %s is %s of %s", option->name, value,
                        below ? "below the minimum" : "above the maximum", limit);
}

int zc_option_store_integer(const struct zc_option *option, uint64_t value, struct zc_run_options *options, struct zc_error *err)
{
    char text[32];

    if (value < option->min || value > option->max) {
        if (option->type == ZC_OPTION_SIZE)
            zc_size_format(value, text, sizeof(text));
        else
            snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
        return zc_option_out_of_range(option, text, value < option->min, err);
    }
    *(uint64_t *)field_of(option, options) = value;
    if (option->sweep_field != 0)
        *sweep_of(option, options) = '\0';
    return 0;
}

int zc_option_store_seconds(const struct zc_option *option, double value, struct zc_run_options *options, struct zc_error *err)
{
    char text[32];

    snprintf(text, sizeof(text), "%g", value);
    if (!isfinite(value))
        return zc_option_wrong_type(option, text, err);
    if (value < option->min_s || value > option->max_s)
        return zc_option_out_of_range(option, text, value < option->min_s, err);
    *(double *)field_of(option, options) = value;
    return 0;
}

/* What stands behind "sweep:". The size is read from the sweep by whoever has it. */
static int parse_sweep(const struct zc_option *option, const char *id, struct zc_run_options *options, struct zc_error *err)
{
    size_t length = strlen(id);

    if (length == 0 || length >= ZC_ID_MAX || strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != length)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, option->name, "%s: %s is not the id of a stored sweep (`zcctl results list`)",
                            option->name, quote(id).text);
    strcpy(sweep_of(option, options), id);
    *(uint64_t *)field_of(option, options) = 0;
    return 0;
}

static int parse_integer(const struct zc_option *option, const char *text, struct zc_run_options *options, struct zc_error *err)
{
    uint64_t value = 0;
    int rc;

    if (option->sweep_field != 0 && strncmp(text, "sweep:", 6) == 0)
        return parse_sweep(option, text + 6, options, err);
    if (option->type == ZC_OPTION_SIZE) {
        rc = zc_size_parse(text, &value);
    } else if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') {
        rc = -EINVAL;
    } else {
        errno = 0;
        value = strtoull(text, NULL, 10);
        rc = -errno;
    }
    if (rc == -ERANGE)
        return zc_option_out_of_range(option, quote(text).text, false, err);
    if (rc != 0)
        return zc_option_wrong_type(option, quote(text).text, err);
    return zc_option_store_integer(option, value, options, err);
}

static int parse_seconds(const struct zc_option *option, const char *text, struct zc_run_options *options, struct zc_error *err)
{
    char *end;
    double value;

    /* Digits and a point only: strtod(3) would also take "nan", "0x10" and " 1". */
    if (text[strspn(text, "0123456789.")] != '\0' || strpbrk(text, "0123456789") == NULL)
        return zc_option_wrong_type(option, quote(text).text, err);
    value = strtod(text, &end);
    if (*end != '\0')
        return zc_option_wrong_type(option, quote(text).text, err);
    return zc_option_store_seconds(option, value, options, err);
}

static int parse_choice(const struct zc_option *option, const char *text, struct zc_run_options *options, struct zc_error *err)
{
    int index = option->find != NULL ? option->find(text) : zc_choice_find(option->choices, text);
    const char *nearest, *what = option->name;
    char list[256] = "";

    if (index >= 0) {
        *(int *)field_of(option, options) = index;
        return 0;
    }
    nearest = zc_choice_nearest(option->choices, text);
    if (nearest != NULL)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, what, "%s: %s is not a %s (did you mean %s?)", what, quote(text).text,
                            option->choices == zc_strategy_names ? "strategy" : "choice", nearest);
    if (option->choices == zc_strategy_names)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, what, "%s: %s is not a strategy (for instance %s; `zcctl strategies` lists all)",
                            what, quote(text).text, zc_strategy_names[ZC_COPY_BLOCKING]);
    for (int i = 0; option->choices[i] != NULL; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    }
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, what, "%s: %s is not one of %s", what, quote(text).text, list);
}

static int parse_text(const struct zc_option *option, const char *text, struct zc_run_options *options, struct zc_error *err)
{
    if (*text == '\0')
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, option->name, "%s: it is empty", option->name);
    if (strlen(text) >= option->max)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, option->name, "%s: %zu characters are above the maximum of %llu",
                            option->name, strlen(text), (unsigned long long)option->max - 1);
    strcpy(field_of(option, options), text);
    return 0;
}

int zc_option_parse(const struct zc_option *option, const char *text, struct zc_run_options *options, struct zc_error *err)
{
    if (option->type == ZC_OPTION_FLAG) {
        if (text != NULL && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return zc_option_wrong_type(option, quote(text).text, err);
        *(bool *)field_of(option, options) = text == NULL || strcmp(text, "true") == 0;
        return 0;
    }
    if (text == NULL)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, option->name, "%s: the value is missing", option->name);

    switch (option->type) {
    case ZC_OPTION_SIZE:
    case ZC_OPTION_COUNT:
        return parse_integer(option, text, options, err);
    case ZC_OPTION_SECONDS:
        return parse_seconds(option, text, options, err);
    case ZC_OPTION_CHOICE:
        return parse_choice(option, text, options, err);
    case ZC_OPTION_TEXT:
    case ZC_OPTION_FLAG:
        break;
    }
    return parse_text(option, text, options, err);
}

void zc_run_options_init(struct zc_run_options *options)
{
    memset(options, 0, sizeof(*options));
    options->strategy = -1;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (table[i].default_text != NULL)
            zc_option_parse(&table[i], table[i].default_text, options, NULL);   /* a test holds that none fails */
}

bool zc_option_taken(const struct zc_option *option, int strategy)
{
    return strategy < 0 || (option->strategies & STRATEGY(strategy)) != 0;
}

static void put_defaults(struct zc_run_options *options, uint64_t given)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if ((given >> i & 1) == 0 && (table[i].others & STRATEGY(options->strategy)) != 0)
            zc_option_parse(&table[i], table[i].other_default, options, NULL);
}

static int check_validation(struct zc_run_options *options, uint64_t given, struct zc_error *err)
{
    bool chosen = options->skip_validation || (given & zc_option_bit("validate")) != 0;

    if (!chosen && zc_strategy_infos[options->strategy].memory == ZC_MEMORY_PREREGISTERED)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "skip_validation", "%s moves bytes that nobody takes over: give either "
                            "skip_validation or validate first or all, which checks its memory outside the measured windows",
                            zc_strategy_names[options->strategy]);
    if (options->skip_validation && (given & zc_option_bit("validate")) != 0 && options->validate != ZC_VALIDATE_NONE)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "validate",
                            "skip_validation and validate %s contradict each other: give one of them",
                            zc_validate_names[options->validate]);
    if (options->skip_validation)
        options->validate = ZC_VALIDATE_NONE;
    options->skip_validation = options->validate == ZC_VALIDATE_NONE;
    return 0;
}

/* A page of the reserved pool that another program has taken between two requests could not be touched again: SIGBUS. And an MR
 * goes on naming the pages that were discarded. */
static int check_pages(const struct zc_run_options *options, struct zc_error *err)
{
    if (options->buffers == ZC_BUFFERS_FRESH && zc_strategy_infos[options->strategy].memory == ZC_MEMORY_PREREGISTERED)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "buffers", "buffers fresh: %s reads into memory that was registered "
                            "beforehand, which cannot be fresh", zc_strategy_names[options->strategy]);
    if (options->buffers != ZC_BUFFERS_FRESH || options->pages == ZC_PAGES_DEFAULT || options->pages == ZC_PAGES_THP)
        return 0;
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "buffers",
                        "buffers fresh goes with pages default or thp: pages of %s that are given back may be gone",
                        zc_pages_names[options->pages]);
}

static int check_pieces(const struct zc_run_options *options, struct zc_error *err)
{
    if (options->pieces > options->size_bytes)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "pieces", "pieces: a request of %llu bytes cannot be in %llu pieces",
                            (unsigned long long)options->size_bytes, (unsigned long long)options->pieces);
    if ((options->align_bytes & (options->align_bytes - 1)) != 0)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "align", "align: %llu is not a power of two",
                            (unsigned long long)options->align_bytes);
    return 0;
}

static int check_numa(const struct zc_run_options *options, struct zc_error *err)
{
    const char *numa = options->numa;

    if (strcmp(numa, "auto") == 0 || strcmp(numa, "none") == 0)
        return 0;
    if (*numa != '\0' && numa[strspn(numa, "0123456789")] == '\0' && strlen(numa) <= 4)
        return 0;
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "numa", "numa: %s is not auto, none or the number of a NUMA node",
                        quote(numa).text);
}

int zc_run_options_check(struct zc_run_options *options, uint64_t given, struct zc_error *err)
{
    char host[ZC_PEER_MAX];
    uint16_t port;
    int rc;

    if (options->strategy < 0 || options->strategy >= ZC_STRATEGY_COUNT)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "strategy", "strategy: it is required (for instance %s)",
                            zc_strategy_names[ZC_COPY_BLOCKING]);
    if (options->peer[0] == '\0')
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "peer", "peer: it is required (a host, HOST:PORT, or self)");
    rc = zc_peer_split(options->peer, host, &port, err);
    if (rc == 0)
        rc = check_pages(options, err);
    if (rc == 0)
        rc = check_numa(options, err);
    if (rc == 0)
        rc = check_pieces(options, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if ((given >> i & 1) != 0 && !zc_option_taken(&table[i], options->strategy))
            return zc_error_set(err, ZC_ERR_INVALID, EINVAL, table[i].name, "%s: the strategy %s does not take it", table[i].name,
                                zc_strategy_names[options->strategy]);
    if (options->skip_latency && options->skip_throughput)
        return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "skip_throughput",
                            "skip_latency and skip_throughput together leave nothing to measure");
    rc = check_validation(options, given, err);
    if (rc == 0)
        put_defaults(options, given);
    return rc;
}
