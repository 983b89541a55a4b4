/* Configuration file (libinih) and command line, both made from one table of keys. See config.h. */
#include "config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "network.h"
#include "options.h"
#include "peer.h"

static const char SECTION[] = "zcrdmad";
#define NONE "none"         /* an optional path that is not given */
#define ALL "all"           /* no list of networks */
enum { LINE_MAX_BYTES = 8192 };

enum key_type { KEY_PATH, KEY_OPTIONAL_PATH, KEY_NAME, KEY_ENDPOINT, KEY_SIZE, KEY_CHOICE, KEY_COUNT, KEY_MODE, KEY_NETWORKS };

struct key {
    const char *name;           /* in the file; the command line has '-' for '_' */
    const char *metavar;
    enum key_type type;
    size_t offset;              /* in struct config */
    const char *default_text;
    bool reloadable;
    const char *help;
    const char *const *choices; /* NULL-terminated; KEY_CHOICE only */
    uint32_t min, max;          /* KEY_COUNT only */
};

static const char *const rkey_scopes[] = { [CONFIG_RKEY_AUTO] = "auto", [CONFIG_RKEY_SESSION] = "session",
                                           [CONFIG_RKEY_REGION] = "region", NULL };

static const struct key keys[] = {
    { "socket", "PATH", KEY_PATH, offsetof(struct config, socket), "/run/zcrdmad/control.sock", false,
      "control socket that zcctl connects to", NULL, 0, 0 },
    { "socket_group", "GROUP", KEY_NAME, offsetof(struct config, socket_group), "zcrdma", false,
      "group whose members may use it", NULL, 0, 0 },
    { "socket_mode", "MODE", KEY_MODE, offsetof(struct config, socket_mode), "0660", false,
      "its permissions, octal", NULL, 0, 0 },
    { "max_clients", "COUNT", KEY_COUNT, offsetof(struct config, max_clients), "64", true,
      "connections to it at once; more are refused", NULL, 1, 4096 },
    { "state_dir", "DIR", KEY_PATH, offsetof(struct config, state_dir), "/var/lib/zcrdmad", false,
      "folder of the stored results", NULL, 0, 0 },
    { "max_results", "COUNT", KEY_COUNT, offsetof(struct config, max_results), "10000", true,
      "results kept there; the oldest are removed first", NULL, 1, 1000000 },
    { "device", "auto|soft|NAME", KEY_NAME, offsetof(struct config, device), "auto", false,
      "RDMA device; auto: one with an ACTIVE port, or else the software device", NULL, 0, 0 },
    { "listen", "ADDR:PORT", KEY_ENDPOINT, offsetof(struct config, listen), "0.0.0.0:17471", false,
      "where peers connect; port 0: any free one", NULL, 0, 0 },
    { "region_size", "SIZE", KEY_SIZE, offsetof(struct config, region_size_bytes), "256M", false,
      "memory exposed to peers for reading", NULL, 0, 0 },
    { "region_pages", "PAGES", KEY_CHOICE, offsetof(struct config, region_pages), "default", false,
      "default, thp, 2m or 1g (pages of that memory)", zc_pages_names, 0, 0 },
    { "rkey_scope", "SCOPE", KEY_CHOICE, offsetof(struct config, rkey_scope), "auto", false,
      "auto, session or region (what an rkey of that memory is good for)", rkey_scopes, 0, 0 },
    { "allow", "CIDR,...", KEY_NETWORKS, offsetof(struct config, allow), ALL, false,
      "networks of the peers that may connect", NULL, 0, 0 },
    { "key_file", "PATH", KEY_OPTIONAL_PATH, offsetof(struct config, key_file), NONE, false,
      "pre-shared key, which peers must know", NULL, 0, 0 },
    { "max_sessions", "COUNT", KEY_COUNT, offsetof(struct config, max_sessions), "256", false,
      "sessions of peers at once; more are refused", NULL, 1, 4096 },
    { "max_sessions_per_peer", "COUNT", KEY_COUNT, offsetof(struct config, max_sessions_per_peer), "64", false,
      "of them, those of one address", NULL, 1, 4096 },
    { "max_qps_per_session", "COUNT", KEY_COUNT, offsetof(struct config, max_qps_per_session), "64", false,
      "queue pairs of a session", NULL, 1, ZC_PEER_QPS_MAX },
    { "idle_timeout", "SECONDS", KEY_COUNT, offsetof(struct config, idle_timeout_s), "300", false,
      "a peer's program that is silent for so long is let go; 0: never", NULL, 0, 86400 },
    { "keepalive_interval", "SECONDS", KEY_COUNT, offsetof(struct config, keepalive_interval_s), "10", false,
      "how often the NIC of a silent session is asked; 0: never", NULL, 0, 86400 },
    { "log_level", "LEVEL", KEY_CHOICE, offsetof(struct config, log_level), "info", true,
      "error, warning, info or debug", log_level_names, 0, 0 },
    { "metrics_file", "PATH", KEY_OPTIONAL_PATH, offsetof(struct config, metrics_file), NONE, true,
      "counters for node_exporter's textfile collector", NULL, 0, 0 },
    { "metrics_interval", "SECONDS", KEY_COUNT, offsetof(struct config, metrics_interval_s), "15", true,
      "how often they are written", NULL, 1, 86400 },
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static void *field(const struct key *key, const struct config *config)
{
    return (char *)(uintptr_t)config + key->offset;
}

static int set_text(const struct key *key, const char *text, size_t size, char *to, struct zc_error *err)
{
    size_t length = strlen(text);
    if (length == 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s is empty", key->name);
    if (length >= size)
        return zc_error_set(err, ZC_ERR_INVALID, -ENAMETOOLONG, key->name, "%s is longer than %zu bytes", key->name, size - 1);
    memcpy(to, text, length + 1);
    return 0;
}

/* ADDR:PORT with a numeric address, a version 6 one in brackets. */
static int set_endpoint(const struct key *key, const char *text, struct config_endpoint *endpoint, struct zc_error *err)
{
    struct config_endpoint parsed = { "", 0 };
    unsigned char binary[sizeof(struct in6_addr)];
    char *end = NULL;
    const char *colon = strrchr(text, ':');
    const char *start = text, *stop = colon;
    bool v6 = colon && colon > text && text[0] == '[' && colon[-1] == ']';
    if (v6) {
        start++;
        stop--;
    }
    if (!colon || stop - start >= ZC_NAME_MAX || !isdigit((unsigned char)colon[1]))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s '%.100s' is not ADDR:PORT", key->name, text);
    memcpy(parsed.address, start, (size_t)(stop - start));
    if (inet_pton(v6 ? AF_INET6 : AF_INET, parsed.address, binary) != 1)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name,
                            "%s '%.100s' has no numeric address (1.2.3.4:PORT or [V6]:PORT)", key->name, text);
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end || port > UINT16_MAX)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s '%.100s' has no port from 0 to 65535", key->name, text);
    parsed.port = (uint16_t)port;
    *endpoint = parsed;
    return 0;
}

static int set_size(const struct key *key, const char *text, uint64_t *size_bytes, struct zc_error *err)
{
    static const uint64_t smallest = 4096, largest = UINT64_C(1) << 46;
    uint64_t parsed;
    if (zc_size_parse(text, &parsed) != 0 || parsed < smallest || parsed > largest)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s '%.100s' is not a size from 4K to 64T, such as 256M",
                            key->name, text);
    *size_bytes = parsed;
    return 0;
}

static int set_count(const struct key *key, const char *text, uint32_t *count, struct zc_error *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long parsed = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
    if (!end || *end || errno || parsed < key->min || parsed > key->max)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s '%.100s' is not a number from %" PRIu32 " to %" PRIu32,
                            key->name, text, key->min, key->max);
    *count = (uint32_t)parsed;
    return 0;
}

static int set_mode(const struct key *key, const char *text, uint32_t *mode, struct zc_error *err)
{
    char *end = NULL;
    unsigned long parsed = isdigit((unsigned char)*text) ? strtoul(text, &end, 8) : 0;
    if (!end || *end || parsed > 0777)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s '%.100s' is not an octal mode from 0 to 0777", key->name,
                            text);
    *mode = (uint32_t)parsed;
    return 0;
}

/* Kept as text; serving.c makes a list of it. */
static int set_networks(const struct key *key, const char *text, char *to, struct zc_error *err)
{
    struct zc_networks networks;
    struct zc_error cause = { 0 };
    if (strcmp(text, ALL) == 0) {
        *to = 0;
        return 0;
    }
    if (zc_networks_parse(text, &networks, &cause) != 0)
        return zc_error_set(err, ZC_ERR_INVALID, cause.errnum, key->name, "%s: %s", key->name, cause.message);
    return set_text(key, text, PATH_MAX, to, err);
}

static int set_choice(const struct key *key, const char *text, int *choice, struct zc_error *err)
{
    int found = zc_choice_find(key->choices, text);
    if (found < 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, key->name, "%s '%.100s' is not one of %s", key->name, text, key->help);
    *choice = found;
    return 0;
}

static int set_key(const struct key *key, const char *text, struct config *config, struct zc_error *err)
{
    void *to = field(key, config);
    switch (key->type) {
    case KEY_PATH: return set_text(key, text, PATH_MAX, to, err);
    case KEY_OPTIONAL_PATH:
        if (strcmp(text, NONE) != 0)
            return set_text(key, text, PATH_MAX, to, err);
        *(char *)to = 0;
        return 0;
    case KEY_NAME: return set_text(key, text, ZC_NAME_MAX, to, err);
    case KEY_ENDPOINT: return set_endpoint(key, text, to, err);
    case KEY_SIZE: return set_size(key, text, to, err);
    case KEY_CHOICE: return set_choice(key, text, to, err);
    case KEY_COUNT: return set_count(key, text, to, err);
    case KEY_MODE: return set_mode(key, text, to, err);
    case KEY_NETWORKS: return set_networks(key, text, to, err);
    }
    return zc_error_set(err, ZC_ERR_INTERNAL, -EINVAL, key->name, "%s has no type", key->name);
}

static char *show_key(const struct key *key, const struct config *config, char *text, size_t size)
{
    const void *from = field(key, config);
    const struct config_endpoint *endpoint = from;
    switch (key->type) {
    case KEY_OPTIONAL_PATH: snprintf(text, size, "%s", *(const char *)from ? (const char *)from : NONE); break;
    case KEY_PATH:
    case KEY_NAME: snprintf(text, size, "%s", (const char *)from); break;
    case KEY_ENDPOINT:
        snprintf(text, size, strchr(endpoint->address, ':') ? "[%s]:%u" : "%s:%u", endpoint->address, (unsigned)endpoint->port);
        break;
    case KEY_SIZE: zc_size_format(*(const uint64_t *)from, text, size); break;
    case KEY_CHOICE: snprintf(text, size, "%s", key->choices[*(const int *)from]); break;
    case KEY_COUNT: snprintf(text, size, "%" PRIu32, *(const uint32_t *)from); break;
    case KEY_NETWORKS: snprintf(text, size, "%s", *(const char *)from ? (const char *)from : ALL); break;
    case KEY_MODE: snprintf(text, size, "%04" PRIo32, *(const uint32_t *)from); break;
    }
    return text;
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* " (did you mean KEY?)" for a mistyped key, or "". `name` may end in "=value", `dash` is what keys have for '_'. */
struct hint {
    char text[2 * ZC_NAME_MAX];
};
static struct hint hint(const char *name, const char *before, char dash)
{
    const char *names[KEYS + 1] = { NULL }, *nearest;
    char typed[ZC_NAME_MAX] = "";
    struct hint hint = { "" };
    for (size_t i = 0; i < KEYS; i++)
        names[i] = keys[i].name;
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(name, "="), name);
    nearest = zc_choice_nearest(names, typed);
    if (nearest)
        snprintf(hint.text, sizeof hint.text, " (did you mean %s%s?)", before, nearest);
    for (char *c = hint.text; *c; c++)
        if (*c == '_')
            *c = dash;
    return hint;
}

/* ---- the file */

struct file_state {
    FILE *stream;
    struct config *config;
    int line;                   /* being handled */
    int error_line;             /* 0: none */
    bool seen[KEYS];
    struct zc_error error;
};

/* One line of the file; counts them, because the library tells a line only of the first error. */
static char *read_line(char *line, int size, void *arg)
{
    struct file_state *state = arg;
    char *got = fgets(line, size, state->stream);
    if (!got)
        return NULL;
    state->line++;
    if (!strchr(line, '\n') && !feof(state->stream) && !state->error_line) {
        state->error_line = state->line;
        zc_error_set(&state->error, ZC_ERR_INVALID, -EINVAL, NULL, "line is longer than %d bytes", size - 2);
    }
    return got;
}

static int handle_key(struct file_state *state, const char *section, const char *name, const char *value, struct zc_error *err)
{
    if (strcmp(section, SECTION) != 0)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, *section ? "unknown section [%.60s] of key %.60s"
                            : "no section%s before key %.60s: it belongs into [zcrdmad]", section, name);
    const struct key *key = find_key(name);
    if (!key)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "unknown key %.60s%s", name, hint(name, "", '_').text);
    bool *seen = &state->seen[key - keys];
    if (*seen)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, name, "%s is given twice", name);
    *seen = true;
    return set_key(key, value, state->config, err);
}

static int on_key(void *arg, const char *section, const char *name, const char *value)
{
    struct file_state *state = arg;
    struct zc_error err = { 0 };
    if (handle_key(state, section, name, value, &err) == 0)
        return 1;
    if (!state->error_line) {
        state->error_line = state->line;
        state->error = err;
    }
    return 0;
}

static int read_file(struct config *config, struct zc_error *err)
{
    struct file_state state = { .config = config };
    state.stream = fopen(config->file, "re");
    if (!state.stream) {
        int failed = -errno;
        if (failed == -ENOENT && !config->file_named)
            return 0;
        return zc_error_set(err, ZC_ERR_INVALID, failed, "config", "cannot read configuration %s: %s", config->file,
                            strerror(-failed));
    }
    ini_allow_multiline = false;    /* an indented key is a key, not more of the value before it */
    ini_use_stack = false;
    ini_max_line = LINE_MAX_BYTES;
    int first = ini_parse_stream(read_line, &state, on_key, &state);
    int failed = ferror(state.stream) ? -EIO : 0;
    fclose(state.stream);
    if (failed || first < 0)
        return zc_error_set(err, ZC_ERR_INVALID, failed ? failed : -ENOMEM, "config", "cannot read configuration %s: %s",
                            config->file, strerror(failed ? -failed : ENOMEM));
    if (first > 0 && (!state.error_line || first < state.error_line))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "config", "%s:%d: neither [section] nor key = value", config->file,
                            first);
    if (state.error_line)
        return zc_error_set(err, state.error.kind, state.error.errnum, state.error.field, "%s:%d: %s", config->file,
                            state.error_line, state.error.message);
    return 0;
}

/* ---- the command line */

enum { OPTION_CONFIG = 1, OPTION_CHECK, OPTION_HELP, OPTION_VERSION, OPTION_KEY };  /* OPTION_KEY + index of a key */

struct command_line {
    const char *file;               /* NULL: not given */
    enum config_action action;
    const char *values[KEYS];       /* NULL: not given */
};

static void option_name(const struct key *key, char *name, size_t size)
{
    snprintf(name, size, "%s", key->name);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
}

static int parse_arguments(int argc, char **argv, struct command_line *line, struct zc_error *err)
{
    static const struct option others[] = {
        { "config", required_argument, NULL, OPTION_CONFIG }, { "check-config", no_argument, NULL, OPTION_CHECK },
        { "help", no_argument, NULL, OPTION_HELP }, { "version", no_argument, NULL, OPTION_VERSION }, { NULL, 0, NULL, 0 },
    };
    struct option options[KEYS + sizeof others / sizeof others[0]];
    char names[KEYS][ZC_NAME_MAX];
    for (int i = 0; i < KEYS; i++) {
        option_name(&keys[i], names[i], sizeof names[i]);
        options[i] = (struct option){ names[i], required_argument, NULL, OPTION_KEY + i };
    }
    memcpy(options + KEYS, others, sizeof others);

    optind = 0;     /* 0, not 1: getopt starts anew, also when the configuration is read again */
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_CONFIG: line->file = optarg; break;
        case OPTION_CHECK: line->action = CONFIG_CHECK; break;
        case OPTION_HELP: line->action = CONFIG_SHOW_HELP; return 0;
        case OPTION_VERSION: line->action = CONFIG_SHOW_VERSION; return 0;
        case ':':
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "option %.100s needs a value", argv[optind - 1]);
        case '?':
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "unknown option %.100s%s", argv[optind - 1],
                                hint(argv[optind - 1] + strspn(argv[optind - 1], "-"), "--", '-').text);
        default: line->values[option - OPTION_KEY] = optarg;
        }
    }
    if (optind < argc)
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "unexpected argument '%.100s'", argv[optind]);
    return 0;
}

static int set_defaults(struct config *config, struct zc_error *err)
{
    for (size_t i = 0; i < KEYS; i++)
        if (set_key(&keys[i], keys[i].default_text, config, err) != 0)
            return zc_error_set(err, ZC_ERR_INTERNAL, -EINVAL, keys[i].name, "%s: its default is not valid", keys[i].name);
    return 0;
}

static int set_from_line(const struct command_line *line, struct config *config, struct zc_error *err)
{
    for (size_t i = 0; i < KEYS; i++) {
        struct zc_error cause = { 0 };
        char name[ZC_NAME_MAX];
        if (!line->values[i] || set_key(&keys[i], line->values[i], config, &cause) == 0)
            continue;
        option_name(&keys[i], name, sizeof name);
        return zc_error_set(err, cause.kind, cause.errnum, cause.field, "--%s: %s", name, cause.message);
    }
    return 0;
}

/* ---- together */

int config_load(int argc, char **argv, struct config *config, enum config_action *action, struct zc_error *err)
{
    struct command_line line = { 0 };
    int failed = parse_arguments(argc, argv, &line, err);
    if (failed)
        return failed;
    if (line.action == CONFIG_SHOW_HELP || line.action == CONFIG_SHOW_VERSION) {
        *action = line.action;
        return 0;
    }
    struct config loaded = { .argc = argc, .argv = argv, .file_named = line.file != NULL };
    if ((size_t)snprintf(loaded.file, sizeof loaded.file, "%s", line.file ? line.file : CONFIG_DEFAULT_FILE) >= sizeof loaded.file)
        return zc_error_set(err, ZC_ERR_INVALID, -ENAMETOOLONG, "config", "the name of the configuration file is too long");
    failed = set_defaults(&loaded, err);
    if (!failed)
        failed = read_file(&loaded, err);
    if (!failed)
        failed = set_from_line(&line, &loaded, err);
    if (failed)
        return failed;
    *config = loaded;
    *action = line.action;
    return 0;
}

int config_reload(struct config *config, void (*report)(const char *key), size_t *fixed, struct zc_error *err)
{
    struct config again;
    enum config_action action;
    int failed = config_load(config->argc, config->argv, &again, &action, err);
    if (failed)
        return failed;
    *fixed = 0;
    for (size_t i = 0; i < KEYS; i++) {
        char now[PATH_MAX], then[PATH_MAX];
        if (strcmp(show_key(&keys[i], &again, now, sizeof now), show_key(&keys[i], config, then, sizeof then)) == 0)
            continue;
        if (keys[i].reloadable) {
            set_key(&keys[i], now, config, NULL);
        } else {
            ++*fixed;
            report(keys[i].name);
        }
    }
    return 0;
}

static void print_row(FILE *out, const char *left, const char *help, const char *default_text)
{
    fprintf(out, "  %-25s  %s%s%s%s\n", left, help, default_text ? " (" : "", default_text ? default_text : "",
            default_text ? ")" : "");
}

void config_print_help(FILE *out)
{
    fputs("usage: zcrdmad [OPTION]...\n"
          "Serve a region of memory to peers over RDMA, and measure reading from theirs (zcctl run).\n\n", out);
    print_row(out, "--config FILE", "configuration", CONFIG_DEFAULT_FILE);
    for (size_t i = 0; i < KEYS; i++) {
        char name[ZC_NAME_MAX], left[2 * ZC_NAME_MAX];
        option_name(&keys[i], name, sizeof name);
        snprintf(left, sizeof left, "--%s %s", name, keys[i].metavar);
        print_row(out, left, keys[i].help, keys[i].default_text);
    }
    print_row(out, "--check-config", "check the configuration, print it and exit", NULL);
    print_row(out, "--version", "print the version and exit", NULL);
    print_row(out, "--help", "print this and exit", NULL);
    fputs("\nThe configuration file has the same keys (with '_' for '-') in its section [zcrdmad]; the command line wins.\n"
          "Exit status: 0 ended as asked, 1 failed, 2 wrong option or configuration.\n", out);
}

void config_print(const struct config *config, FILE *out)
{
    fprintf(out, "[%s]\n", SECTION);
    for (size_t i = 0; i < KEYS; i++) {
        char text[PATH_MAX];
        fprintf(out, "%s = %s\n", keys[i].name, show_key(&keys[i], config, text, sizeof text));
    }
}
