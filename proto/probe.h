/* What the parts of a READ cost on this host: registering, copying, reading, setting up - and the size at which registering becomes
 * cheaper than copying by these figures alone. Plain structs: zc_probe_run() (src/probe.h) fills them, probe_json.c encodes. Every
 * figure is seconds; what was not measured is NAN and becomes null. Any thread, one at a time. */
#ifndef ZC_PROBE_H
#define ZC_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "options.h"
#include "result.h"
#include "statistics.h"

enum { ZC_PROBE_SCHEMA_VERSION = 1, ZC_PROBE_ROWS_MAX = 256, ZC_PROBE_WHY_MAX = 160 };

enum zc_probe_what {
    ZC_PROBE_REGISTER,      /* ibv_reg_mr(3) */
    ZC_PROBE_DEREGISTER,    /* ibv_dereg_mr(3) of the same */
    ZC_PROBE_COPY,          /* memcpy(3) from one place into a large buffer, all of it touched before */
    ZC_PROBE_READ,          /* an RDMA READ into registered memory, from posting to its completion */
    ZC_PROBE_QP_CREATE,     /* ibv_create_qp(3) */
    ZC_PROBE_QP_DESTROY,
    ZC_PROBE_CONNECT,       /* a session with one QP: resolve, create, connect, HELLO, WELCOME */
    ZC_PROBE_DISCONNECT,    /* BYE, disconnect, destroy */
    ZC_PROBE_WHAT_COUNT,
};
extern const char *const zc_probe_what_names[];     /* "register", "deregister", "copy", "read", "qp_create", ... */

/* What is measured, and how. */
struct zc_probe_case {
    enum zc_probe_what what;
    uint64_t size_bytes;    /* 0: it has none */
    enum zc_pages pages;    /* that the memory is on */
    bool cold;              /* registering: pages that nobody has touched */
    uint32_t threads;       /* that do it at the same time, each with memory of its own */
    uint32_t inflight;      /* READs in flight; 0: it is no READ */
    bool event;             /* READ: asleep until the completion comes, instead of polling */
};

struct zc_probe_row {
    struct zc_probe_case is;
    struct zc_estimate time_s;      /* of one; with several READs in flight, from one completion to the next */
    double min_s, max_s;            /* the trials' extremes */
    char why[ZC_PROBE_WHY_MAX];     /* why there is no figure; "" if there is one, or its turn has not come */
};

/* Registering and deregistering together, default pages touched before, one thread: base_s + per_page_s * pages. */
struct zc_probe_fit {
    double base_s, per_page_s;      /* NAN: fewer than two sizes were measured */
    uint64_t page_bytes;
    double worst_residual;          /* the largest |fitted - measured| as a share of what was measured */
    uint32_t sizes;                 /* behind it */
    uint64_t low_bytes, high_bytes; /* the smallest and the largest of them; 0: none */
};

struct zc_probe {
    bool made;                      /* zc_probe_run() has been through; false: everything is unmeasured */
    char id[ZC_ID_MAX];             /* this and the next two are the caller's: zc_probe_run() leaves them alone */
    uint64_t owner_uid;             /* of the user who asked for it; ZC_UNMEASURED unknown */
    char asked_peer[ZC_PEER_MAX];   /* as the user named it: "self"; "" none */
    enum zc_run_state state;
    struct zc_error error;          /* kind ZC_ERR_NONE unless failed or cancelled; rows measured before are kept */
    bool quick;                     /* the short form: what a model of the strategies needs, no more */
    struct zc_peer_info peer;
    struct zc_environment environment;
    int64_t started_unix_ns, finished_unix_ns;      /* CLOCK_REALTIME; 0: never */
    struct zc_probe_fit fit;
    uint32_t row_count;
    struct zc_probe_row rows[ZC_PROBE_ROWS_MAX];    /* planned first, in this order, measured then */
};

/* Everything unmeasured, no rows. About 80 KiB: better in a thread's own frame or on the heap than deep in a recursion. */
void zc_probe_init(struct zc_probe *probe);
/* One more row without a figure; NULL: the table is full. */
struct zc_probe_row *zc_probe_add(struct zc_probe *probe, const struct zc_probe_case *is);
/* `count` trials, in seconds, become the row's figure. Sorts them. */
void zc_probe_set(struct zc_probe_row *row, double *trials_s, size_t count);
/* The row of a case, NULL if there is none. */
const struct zc_probe_row *zc_probe_find(const struct zc_probe *probe, const struct zc_probe_case *is);
/* probe->fit from the rows: the sum of the relative residuals is least. Relative, because sizes span four decades and the largest would
 * else decide alone; not of squares, so that one size that a noisy moment has spoiled does not bend the line. */
void zc_probe_fit_make(struct zc_probe *probe);

/* What the model says of a size that may lie between those measured, in seconds; NAN: the rows it takes are missing. Copies and READs
 * are drawn as straight lines between neighbouring sizes (and beyond the ends along the last of them). */
double zc_probe_registration_s(const struct zc_probe *probe, uint64_t size_bytes);      /* register and deregister */
double zc_probe_copy_s(const struct zc_probe *probe, uint64_t size_bytes);
double zc_probe_read_s(const struct zc_probe *probe, uint64_t size_bytes, bool stream); /* one alone; or in a stream of them */
/* The size from which on registering and deregistering takes no longer than copying, within the sizes of the fit. NAN: there is none,
 * or the rows are missing; the low end of the fit if copying never pays. */
double zc_probe_crossover_bytes(const struct zc_probe *probe);

#endif
