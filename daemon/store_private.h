/* What the files of the store share: store.c (results as files), store_index.c (what is known of them), store_trace.c. */
#ifndef ZC_DAEMON_STORE_PRIVATE_H
#define ZC_DAEMON_STORE_PRIVATE_H

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "result.h"
#include "store.h"

enum { STORE_FOLDER_MAX = PATH_MAX - ZC_ID_MAX - 16 };     /* leaves room for every file name below it */
#define STORE_SUFFIX ".json"

/* A file of the results' folder. */
struct store_entry {
    char *name;                 /* without .json if it is a result's, else the whole */
    char *row;                  /* JSON: its row in result.list */
    uint64_t owner_uid;         /* ZC_UNMEASURED: unknown */
    struct stat stat;           /* of what was read; st_ino 0: written by ourselves, not looked at yet */
    unsigned scan;              /* the latest that has seen it */
};

struct store {
    char folder[STORE_FOLDER_MAX];      /* STATE_DIR/results */
    char traces[STORE_FOLDER_MAX];      /* STATE_DIR/traces */
    atomic_size_t max_results;          /* 0: no limit */
    atomic_size_t count;                /* files, as of the last look */
    pthread_mutex_t lock;               /* never held while the disk is touched */
    struct store_entry **entries;       /* by name, descending: newest first */
    size_t entry_count, entry_capacity;
    unsigned scan;
};

void store_file_name(const struct store *store, const char *prefix, const char *id, char *path);
void store_trace_name(const struct store *store, const char *id, char *path);
/* A document from its file, a new reference; or NULL with the reason. */
json_t *store_load(const struct store *store, const char *id, char *why, size_t why_size, int *errnum);
/* Of an entry of a results' or traces' folder: the id in its name; false: it is not named as ours are. */
bool store_id_of_file(const char *file, char id[ZC_ID_MAX]);
/* 0, or ZC_ERR_INVALID naming `id`; and ZC_ERR_NOT_FOUND. */
int store_id_check(const char *id, struct zc_error *err);
int store_not_found(const char *id, struct zc_error *err);
int store_visible(const struct dirent *entry);
/* Temporary files and orphaned traces may be another daemon's that has the same folder, unless they are old. */
bool store_is_old(int folder_fd, const char *file);
void store_remove_orphans(struct store *store);

/* A result that was just written, or removed. */
void store_index_put(struct store *store, const char *id, const json_t *document);
void store_index_remove(struct store *store, const char *id);
void store_index_destroy(struct store *store);

#endif
