/* The handlers of the control methods, one row of proto/methods.def each: `run.start` is cmd_run_start(). A handler decodes its
 * parameters, calls, encodes. Their names have been checked: unknown and missing ones never come here. */
#ifndef ZC_DAEMON_CMD_H
#define ZC_DAEMON_CMD_H

#include <jansson.h>

#include "daemon.h"
#include "error.h"

/* A handler's answer besides 0 and negative errnos: it has kept the call (or answered it already). */
enum { CMD_KEPT = 1 };

/* 0 with *result, a new reference (NULL: no memory); a negative errno with *err; CMD_KEPT. `params` is an object. */
typedef int cmd_handler(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err);

#define ZC_METHOD(name, handler, access, params, help) cmd_handler cmd_##handler;
#include "methods.def"
#undef ZC_METHOD

/* A parameter's value, or ZC_ERR_INVALID naming it. Text is borrowed from params. */
int cmd_text(const json_t *params, const char *name, const char **text, struct zc_error *err);
int cmd_count(const json_t *params, const char *name, uint64_t *count, struct zc_error *err);
/* An optional one: *flag stays as it is if absent. */
int cmd_flag(const json_t *params, const char *name, bool *flag, struct zc_error *err);

#endif
