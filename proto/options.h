/* The options of a run: the one table from which the command line, JSON decoding, help, completions, the echo in the
 * result and the man page are made. Plain C, no JSON (that is options_json.h). Stateless; any thread. */
#ifndef ZC_OPTIONS_H
#define ZC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "family.h"
#include "pages.h"
#include "strategies.h"

enum zc_validate { ZC_VALIDATE_NONE, ZC_VALIDATE_FIRST, ZC_VALIDATE_ALL };
enum zc_wait { ZC_WAIT_POLL, ZC_WAIT_EVENT };
enum zc_offset { ZC_OFFSET_ROTATE, ZC_OFFSET_FIXED };
enum zc_buffers { ZC_BUFFERS_REUSE, ZC_BUFFERS_FRESH };
enum zc_relaxed_ordering { ZC_RELAXED_AUTO, ZC_RELAXED_ON, ZC_RELAXED_OFF };

enum { ZC_PEER_MAX = 256, ZC_NUMA_MAX = 16, ZC_DEVICE_MAX = 64, ZC_ID_MAX = 48 };

struct zc_run_options {
    int strategy;                 /* enum zc_strategy_id; -1 until set: it has no default */
    char peer[ZC_PEER_MAX];       /* HOST[:PORT], [V6]:PORT or "self"; "" until set: it has no default */
    uint64_t size_bytes;          /* bytes of one request */
    double warmup_s;              /* before each window */
    double measure_s;             /* the length of each window */
    bool skip_validation;         /* the same as validate = none */
    bool skip_latency;
    bool skip_throughput;
    uint64_t memory_max_bytes;    /* bounds user buffers; the engine lowers it to half of the free memory */
    uint64_t operations_max;      /* requests in flight at most */
    uint64_t mr_size_bytes;       /* chunk of the copy strategies */
    uint64_t mr_count;            /* slots of staging memory of that size; 0: as many as the engine finds useful */
    uint64_t chunk_size_bytes;    /* chunk of all but the copy and naive strategies */
    uint64_t cache_max_bytes;     /* cached strategies: registered memory that is kept at most */
    uint64_t threshold_bytes;     /* hybrid strategies: requests of fewer bytes are copied, the others registered */
    char threshold_sweep[ZC_ID_MAX];    /* the stored sweep that threshold_bytes comes from, and while that is 0, is still to be read
                                           from; "": none. See zc_sweep_threshold() */
    uint64_t pieces;              /* of user memory that a request is scattered over */
    uint64_t align_bytes;         /* where each begins in a page; 0: as it comes */
    uint64_t concurrency;         /* threads that copy; with async all of the pool */
    uint64_t concurrency_reg;     /* threads that register */
    uint64_t concurrency_dereg;   /* threads that deregister */
    uint64_t qps;                 /* QPs that the chunks are spread over */
    uint64_t footprint_bytes;     /* user buffers cycled through */
    int offset;                   /* enum zc_offset */
    int validate;                 /* enum zc_validate */
    int wait;                     /* enum zc_wait */
    int buffers;                  /* enum zc_buffers: user buffers touched before the clock starts, or never touched */
    bool consume;                 /* read the bytes once after they are available */
    int pages;                    /* enum zc_pages: of user buffers and staging memory */
    int relaxed_ordering;         /* enum zc_relaxed_ordering: of every MR for data */
    int post;                     /* enum zc_family: of verbs, to post and to poll with */
    uint64_t tos;                 /* type of service of the packets; 0: the system's choice */
    char device[ZC_DEVICE_MAX];   /* "auto": the daemon's */
    uint64_t threads;             /* independent callers, each with its own connection and pipeline */
    bool logging;                 /* record every stage of every chunk of the last window in a trace */
    char numa[ZC_NUMA_MAX];       /* "auto", "none" or a node's number: where threads and memory belong */
};

enum zc_option_type {
    ZC_OPTION_SIZE,     /* uint64_t, bytes: 64K, 1M, 1MiB, 1000000 (K, M, G, T and KiB... are powers of 1024) */
    ZC_OPTION_SECONDS,  /* double, seconds: 1, 0.5 */
    ZC_OPTION_COUNT,    /* uint64_t */
    ZC_OPTION_FLAG,     /* bool; takes no value on the command line */
    ZC_OPTION_CHOICE,   /* int, an index into choices */
    ZC_OPTION_TEXT,     /* char[], at most max bytes with the terminating zero */
};

struct zc_option {
    const char *name;             /* JSON spelling: "mr_size"; the command line has '-' for '_' */
    char letter;                  /* perftest's for the same thing, 's' for "-s"; 0: none */
    const char *metavar;          /* for help: "SIZE", "SECONDS", "N", "poll|event", NULL for flags */
    enum zc_option_type type;
    size_t field;                 /* offset in struct zc_run_options */
    const char *default_text;     /* as a user would type it; NULL: required */
    const char *other_default;    /* of the strategies in `others`, put in by zc_run_options_check(); NULL: the same for all */
    uint32_t others;
    const char *others_name;      /* what help calls them: "ideal" */
    uint64_t min, max;            /* inclusive: bytes of a size, counts; TEXT: max is the field's length with its zero */
    double min_s, max_s;          /* inclusive, SECONDS only */
    size_t sweep_field;           /* SIZE only: offset of a char[ZC_ID_MAX]; "sweep:ID" is a value, too, and the id goes there. 0: it is none */
    const char *const *choices;   /* NULL-terminated; NULL unless CHOICE */
    int (*find)(const char *text);    /* index of a choice, where other spellings are understood too; NULL: zc_choice_find() */
    uint32_t strategies;          /* bit per zc_strategy_id: which take it (ZC_ALL_STRATEGIES for general ones) */
    const char *help;             /* one line, no full stop */
};

#define ZC_ALL_STRATEGIES UINT32_MAX

/* The table, in the order in which help lists it. Static storage. */
const struct zc_option *zc_options(size_t *count);

/* Row by name, '-' and '_' alike, with `length` bytes of name considered; NULL if there is none. */
const struct zc_option *zc_option_find(const char *name, size_t length);

/* Row by letter; NULL if none has it, and for 0. */
const struct zc_option *zc_option_find_letter(char letter);

/* The bit of a row in `given`. The name is one of the table's. */
uint64_t zc_option_bit(const char *name);

/* A name as the command line spells it: "mr-size". */
struct zc_option_word {
    char text[64];
};
struct zc_option_word zc_option_dashed(const char *name);

/* The nearest option name for a mistyped one, or NULL if none is near. Static storage. */
const char *zc_option_nearest(const char *name);

/* Index of `name` in a NULL-terminated list of choices, or -1. */
int zc_choice_find(const char *const *choices, const char *name);

/* The nearest choice for a mistyped one ('-' and '_' alike), or NULL if none is near. */
const char *zc_choice_nearest(const char *const *choices, const char *name);

/* Does the strategy take this option? With -1, a strategy that is not known yet, every option is one. */
bool zc_option_taken(const struct zc_option *option, int strategy);

extern const char *const zc_validate_names[];
extern const char *const zc_wait_names[];
extern const char *const zc_offset_names[];
extern const char *const zc_buffers_names[];
extern const char *const zc_pages_names[];
extern const char *const zc_relaxed_ordering_names[];
extern const char *const zc_family_names[];

void zc_run_options_init(struct zc_run_options *options);

/* Parse `text` (NULL for a flag) as the option's type, check its range, store it. On error *options is untouched and err
 * names field, value and limits. 0 or a negative errno. */
int zc_option_parse(const struct zc_option *option, const char *text, struct zc_run_options *options, struct zc_error *err);

/* Store an already typed value with the same range check (used by the JSON decoder): sizes and counts. */
int zc_option_store_integer(const struct zc_option *option, uint64_t value, struct zc_run_options *options, struct zc_error *err);
/* The same for seconds. NaN and infinity are refused. */
int zc_option_store_seconds(const struct zc_option *option, double value, struct zc_run_options *options, struct zc_error *err);
/* -EINVAL with "FIELD: VALUE is not a size (use for instance ...)" for a value that is not of the option's type. */
int zc_option_wrong_type(const struct zc_option *option, const char *value, struct zc_error *err);
/* -ERANGE with "FIELD: VALUE is below the minimum of MIN", or above the maximum, for a number that only `value` can show. */
int zc_option_out_of_range(const struct zc_option *option, const char *value, bool below, struct zc_error *err);

/* What concerns several fields: required ones present, --skip-validation against --validate (afterwards both say the same), the
 * ideal strategies with neither, nothing left to measure, an option that the strategy does not take (`given`: a bit per row of
 * the table that the user set). Puts in the defaults that depend on the strategy. */
int zc_run_options_check(struct zc_run_options *options, uint64_t given, struct zc_error *err);

/* "64K", "1M", "1MiB", "1000000" -> bytes. The whole text must be consumed. 0, -EINVAL, or -ERANGE beyond 64 bits. */
int zc_size_parse(const char *text, uint64_t *bytes);

/* Shortest exact form: "64K", "1M", "1000000". Returns buffer. */
char *zc_size_format(uint64_t bytes, char *buffer, size_t length);

/* Split "HOST[:PORT]", "[V6][:PORT]" or a bare V6 address (both may carry %ZONE). host: at least ZC_PEER_MAX bytes, without
 * brackets. port 0 if none was given. Names are checked for their characters only, nothing is resolved. 0 or -EINVAL. */
int zc_peer_split(const char *peer, char *host, uint16_t *port, struct zc_error *err);

#endif
