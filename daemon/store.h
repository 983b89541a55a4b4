/* Results as files, one a run: STATE_DIR/results/ID.json. They survive a restart; a file that is foreign or damaged is told as
 * unreadable and disturbs nothing else. What a list shows of each is kept in memory, so that a list need not read them again. Any thread
 * may call; who must not wait for a disk leaves it to another thread (worker.h). */
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
/* More results than these are removed, oldest first, with their traces; files that are not named as results are neither counted nor
 * touched. 0, as at first: no limit. Takes effect with store_prune(), which store_write() calls. Does not touch the disk. */
void store_set_max(struct store *store, size_t max_results);
void store_prune(struct store *store);

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

/* Files that are there, as of the last look at the folder. Does not touch the disk. */
size_t store_count(struct store *store);

/* Look at the folder: read what is new or has changed, forget what is gone. One thread at a time. ZC_ERR_RESOURCE. */
int store_refresh(struct store *store, struct zc_error *err);

/* At most `limit` rows of result.list, newest first, as of the last look: *rows, a new array. `before`: only what is older than this
 * name; NULL: from the newest on. *next (NAME_MAX + 1 bytes): the `before` that goes on from here, "" at the end. An unreadable file
 * has a row that says why. -ENOMEM. Does not touch the disk. */
int store_page(struct store *store, const char *before, size_t limit, json_t **rows, char *next);

/* Who started it: false if that is not known, ZC_UNMEASURED if the result does not say. Reads the file only if no look has seen it. */
bool store_owner(struct store *store, const char *id, uint64_t *owner_uid);

/* mkdir(2) of path and its parents, mode 0755; what exists is fine. 0 or a negative errno. */
int make_folders(const char *path);

#endif
