/* A stored sweep for a method that needs one: read and decoded in the worker's thread, because a disk may be slow. */
#ifndef ZC_DAEMON_STORED_SWEEP_H
#define ZC_DAEMON_STORED_SWEEP_H

#include "cmd.h"
#include "sweep.h"

/* First in a struct of what the method needs beside it, which is malloc'ed and belongs to this module from stored_sweep_read() on. */
struct stored_sweep {
    struct worker_job job;      /* first: the worker hands it back */
    struct daemon *daemon;
    struct call *call;          /* NULL: its client has gone */
    const char *field;          /* the parameter that names the sweep, which errors blame; static */
    char id[ZC_ID_MAX];
    struct zc_sweep sweep;      /* once `status` is 0 */
    int status;
    struct zc_error error;
    /* In the loop, with the sweep, whose cells it may take over (NULL then): the answer to the call, as of a handler. */
    int (*use)(struct stored_sweep *stored, json_t **result, struct zc_error *err);
};

/* Read the sweep `id`, call `use`, answer `call`, free `stored`. `field` and `use` are set. CMD_KEPT, or an error of an id that is none. */
int stored_sweep_read(struct daemon *daemon, struct call *call, const char *id, struct stored_sweep *stored, struct zc_error *err);

#endif
