/* Start a run or join one, show its progress, cancel it on Ctrl-C, print its result: `run` and `wait`. With context->stream, progress
 * and result are lines of JSON: {"type": "progress", ...} and {"type": "result", "result", "path", "store_error"}. */
#ifndef CTL_FOLLOW_H
#define CTL_FOLLOW_H

#include <jansson.h>

#include "command.h"

/* Send run.start with `params` (stolen). `detach`: print the id and leave the run alone. Returns the exit status. */
int follow_new(struct context *context, json_t *params, bool detach);
/* The same for another method that answers with the id of something that run.wait waits for. */
int follow_start(struct context *context, const char *method, json_t *params, bool detach);

/* The same without printing the result (but for a stream): it goes to *document, a new reference, unless there is none. `label`
 * stands before the live line. */
int follow_quietly(struct context *context, json_t *params, const char *label, json_t **document);

/* The rest of it for a run that exists. */
int follow_existing(struct context *context, const char *id);

#endif
