/* What the parts of the probe share: probe_run.c (plan and order), probe_memory.c (registering, copying), probe_read.c (READs, QPs).
 * Private to src/. */
#ifndef ZC_PROBE_PRIVATE_H
#define ZC_PROBE_PRIVATE_H

#include "clock.h"
#include "completion.h"
#include "connection.h"
#include "memory.h"
#include "placement.h"
#include "probe_run.h"

enum {
    ZC_PROBE_TRIALS_MIN = 7,        /* below it no row has a figure */
    ZC_PROBE_TRIALS_MAX = 511,
    ZC_PROBE_INFLIGHT_MAX = 16,     /* READs of a stream */
    ZC_PROBE_READ_MAX = 1 << 20,    /* the largest of them, bytes */
};

struct probe_run {
    const struct zc_probe_params *params;
    struct zc_probe *probe;
    struct zc_error *err;           /* &probe->error */
    struct zc_placement *placement;
    int numa_node;
    uint64_t row_budget_ns;         /* a row has its least trials, and then as many as fit */
    struct zc_completion *completion;
    struct zc_connection *connection;
    struct zc_buffer landing;       /* of READs; registered as mr */
    struct ibv_mr *mr;
    uint64_t offset;                /* of the next READ in the peer's region */
    double trials_s[ZC_PROBE_TRIALS_MAX], back_s[ZC_PROBE_TRIALS_MAX];     /* of the row under way, and of its deregistrations */
};

/* 0, or -ECANCELED with the error set. */
int probe_look(const struct probe_run *run);
/* One more trial for a row that has `done` and whose first began at start_ns? */
bool probe_more(const struct probe_run *run, size_t done, uint64_t start_ns);
/* How often something that takes `once_ns` is repeated in one trial, so that the clock does not matter. */
unsigned probe_repeats(uint64_t once_ns);
/* Why a row has no figure. */
void probe_unmeasured(struct zc_probe_row *row, const struct zc_error *why);

/* Each measures one row (registering: the two rows of a pair). Negative errno with the error set: the probe cannot go on. A row that
 * cannot be had here says why, and that is 0. */
int probe_registration(struct probe_run *run, struct zc_probe_row *there, struct zc_probe_row *back);
int probe_copies(struct probe_run *run, struct zc_probe_row *first, size_t count);     /* all of them in one buffer */
int probe_read(struct probe_run *run, struct zc_probe_row *row);
int probe_qp(struct probe_run *run, struct zc_probe_row *create, struct zc_probe_row *destroy);
int probe_session(struct probe_run *run, struct zc_probe_row *connect, struct zc_probe_row *disconnect);

/* The session and the memory that READs use, `inflight` of them at once. */
int probe_connect(struct probe_run *run, uint32_t inflight);
/* One READ alone, asleep until it is complete: 0 or more, or a negative errno with the error set. */
int probe_read_once(struct probe_run *run, uint32_t size_bytes, double *time_s);
void probe_release(struct probe_run *run);

#endif
