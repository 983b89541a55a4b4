/* The daemon's configuration: the file /etc/zcrdmad.conf (or --config) and the command line, which wins. One table of keys
 * makes both of them, --help and the report of --check-config. */
#ifndef ZC_DAEMON_CONFIG_H
#define ZC_DAEMON_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"
#include "result.h"

#define CONFIG_DEFAULT_FILE "/etc/zcrdmad.conf"

struct config_endpoint {
    char address[ZC_NAME_MAX];      /* numeric */
    uint16_t port;                  /* 0: any free one */
};

struct config {
    /* where it came from; kept for reading it again */
    char file[PATH_MAX];
    bool file_named;                /* by --config: then it must exist */
    int argc;
    char **argv;
    /* the keys */
    char socket[PATH_MAX];
    char socket_group[ZC_NAME_MAX];
    uint32_t socket_mode;           /* permission bits */
    uint32_t max_clients;           /* the maxima, the metrics and log_level can change at run time */
    char state_dir[PATH_MAX];
    uint32_t max_results;
    char device[ZC_NAME_MAX];       /* "auto", "soft" or a device's name */
    struct config_endpoint listen;
    uint64_t region_size_bytes;
    int region_pages;               /* enum zc_pages */
    int rkey_scope;                 /* enum config_rkey_scope */
    char allow[PATH_MAX];           /* networks of peers, as zc_networks_parse() takes them; "": all */
    char key_file[PATH_MAX];        /* "": none */
    uint32_t max_sessions, max_sessions_per_peer, max_qps_per_session;
    uint32_t idle_timeout_s, keepalive_interval_s;  /* 0: never */
    int log_level;                  /* enum zc_log_level */
    char metrics_file[PATH_MAX];    /* "": none */
    uint32_t metrics_interval_s;
};

enum config_rkey_scope { CONFIG_RKEY_AUTO, CONFIG_RKEY_SESSION, CONFIG_RKEY_REGION };

/* What the command line asks for. */
enum config_action { CONFIG_RUN, CONFIG_CHECK, CONFIG_SHOW_HELP, CONFIG_SHOW_VERSION };

/* Defaults, then the file, then the command line. argv is kept by *config and must outlive it. *config and *action are written
 * on success. On failure err says what is wrong (file:line and key, or the option) and -EINVAL or the file's negative errno is
 * returned. A missing file is an error only if --config named it. */
int config_load(int argc, char **argv, struct config *config, enum config_action *action, struct zc_error *err);

/* The same again from the same file and command line (SIGHUP): on success what can change at run time is taken over into
 * *config and *fixed says how many other keys changed (they wait for the next start; each is named by `report`). On failure
 * *config stays as it was. */
int config_reload(struct config *config, void (*report)(const char *key), size_t *fixed, struct zc_error *err);

void config_print_help(FILE *out);
/* Every key with its value, in the form of the file. */
void config_print(const struct config *config, FILE *out);

#endif
