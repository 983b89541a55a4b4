/* Stored results that a subcommand is about: fetched from the daemon by their ids, or read from files. */
#ifndef CTL_DOCUMENTS_H
#define CTL_DOCUMENTS_H

#include <jansson.h>

#include "command.h"

/* `names`: ids with commas between them, or names of files (with a '/' or ending in .json). Appends the documents of runs and sweeps to
 * the array. 0, or an exit status with everything said. */
int documents_load(struct context *context, const char *names, json_t *documents);

/* Does the name say a file, and not an id? */
bool document_is_file(const char *name);

/* A sweep, not a run. */
bool document_is_sweep(const json_t *document);

#endif
