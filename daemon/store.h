/* Results as files, one a run: STATE_DIR/results/ID.json. They survive a restart; a file that is foreign or damaged is told as
 * unreadable and disturbs nothing else. store_write() may be called by any thread, the rest belongs to one. */
#ifndef ZC_DAEMON_STORE_H
#define ZC_DAEMON_STORE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct store;

/* A run's id: 20261129T190102Z-copy_blocking-3f9a. Everything that comes from a client is checked with this before it
 * becomes part of a file name. */
bool store_id_valid(const char *id);

/* Does not touch the disk. NULL without memory. */
struct store *store_create(const char *state_dir);
void store_destroy(struct store *store);

/* Make the folder if it is missing, see whether results can be stored in it, and remove old temporary files. ZC_ERR_RESOURCE with the folder in its words. */
int store_check(struct store *store, struct zc_error *err);

/* Written under a temporary name, synced, renamed, the folder synced: after 0 the result survives a power failure, and no
 * reader ever sees a part of it. On success `path` (PATH_MAX bytes) is the file's name. */
int store_write(struct store *store, const char *id, const json_t *document, char *path, struct zc_error *err);

/* The document (a new reference) and, if path is not NULL, the file's name. ZC_ERR_INVALID for what is no id,
 * ZC_ERR_NOT_FOUND, ZC_ERR_RESOURCE for an unreadable file. */
int store_read(struct store *store, const char *id, json_t **document, char *path, struct zc_error *err);
bool store_exists(struct store *store, const char *id);
/* The result and the trace that goes with it. */
int store_delete(struct store *store, const char *id, struct zc_error *err);

/* Traces of runs are files STATE_DIR/traces/ID.json, written by the run's own thread before its result is stored. The name for a new
 * one, with its folder made; ZC_ERR_RESOURCE. `path`: PATH_MAX bytes. Any thread. */
int store_trace_path(struct store *store, const char *id, char *path, struct zc_error *err);
/* A piece of a trace from `offset` on, at most `size` bytes. *length 0: at its end. ZC_ERR_NOT_FOUND: the run has none. */
int store_trace_read(struct store *store, const char *id, uint64_t offset, char *piece, size_t size, size_t *length,
                     uint64_t *total, struct zc_error *err);

/* Files that are there. */
size_t store_count(struct store *store);

/* Visit every file, newest id first, until visit() returns false. Unreadable: document is NULL and `why` says why; `name` is
 * then whatever the file is called (without .json). The document is borrowed. */
int store_list(struct store *store, bool (*visit)(void *arg, const char *name, const json_t *document, const char *why),
               void *arg, struct zc_error *err);

/* mkdir(2) of path and its parents, mode 0755; what exists is fine. 0 or a negative errno. */
int make_folders(const char *path);

#endif
