/* The inside of a reuse, for measure.c and terms.c: each part is taken by a run that it fits, and given back by one that ended well.
 * Private to src/. */
#ifndef ZC_REUSE_PRIVATE_H
#define ZC_REUSE_PRIVATE_H

#include <stdbool.h>

#include "completion.h"
#include "connection.h"
#include "memory.h"
#include "measure_private.h"
#include "placement.h"
#include "reuse.h"

struct zc_reuse {
    bool environment_known;
    struct zc_environment environment;
    struct zc_placement *placement;     /* NULL: none */
    char numa[ZC_NUMA_MAX];
    bool threads_bound;
    struct zc_connection *connection;   /* NULL: none; with its completion */
    struct zc_completion *completion;
    uint64_t qps, tos;
    int post;                           /* family of verbs */
    struct zc_peer_info peer;
    struct zc_buffer user;              /* all touched; address NULL: none */
    int pages;
    uint64_t huge_bytes;
};

/* Each moves its part into the run if there is one that fits, and says so. All allow params->reuse NULL. */
bool zc_reuse_environment(struct zc_run *run);
bool zc_reuse_placement(struct zc_run *run);
bool zc_reuse_connection(struct zc_run *run);
bool zc_reuse_buffers(struct zc_run *run);
/* Instead of releasing them: the run has no request in flight and no pipeline any more. */
void zc_reuse_give_back(struct zc_run *run);

#endif
