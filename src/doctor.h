/* What would spoil a measurement on this host, and what to do about it. The checks are one table; they look at the facts that the caller
 * gives and at /sys and /proc below a folder of the caller's choice, which a test can make. */
#ifndef ZC_DOCTOR_H
#define ZC_DOCTOR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "error.h"
#include "options.h"
#include "probe_run.h"
#include "result.h"

enum { ZC_DOCTOR_SCHEMA_VERSION = 1, ZC_FINDINGS_MAX = 32, ZC_FINDING_MAX = 320 };

enum zc_finding_level {
    ZC_FINDING_OK,
    ZC_FINDING_NOTE,        /* worth knowing; spoils nothing by itself */
    ZC_FINDING_WARN,        /* figures will be worse, or differ from time to time */
    ZC_FINDING_BAD,         /* runs fail */
    ZC_FINDING_UNKNOWN,     /* this host does not tell */
};
extern const char *const zc_finding_level_names[];  /* "ok", "note", "warn", "bad", "unknown" */

struct zc_finding {
    const char *id;                 /* of the check: "memlock"; static */
    const char *what;               /* is looked at: "memory that may be locked"; static */
    enum zc_finding_level level;
    char finding[ZC_FINDING_MAX];   /* one sentence without a full stop */
    char fix[ZC_FINDING_MAX];       /* "": nothing to do, or nothing that could be done */
};

/* What connecting to the peer told. */
struct zc_doctor_peer {
    bool asked;
    char name[ZC_PEER_MAX];
    bool self;                      /* it is this daemon */
    struct zc_error error;          /* kind ZC_ERR_NONE: it answered */
    bool short_read, long_read;     /* a READ of 8 bytes came through; and one of several packets */
    char why[ZC_FINDING_MAX];       /* why one did not */
    uint32_t long_read_bytes;
    uint32_t path_mtu;              /* of the connection, bytes; 0 unknown */
    uint32_t active_mtu;            /* of the peer's port, bytes; 0: it does not say */
    bool gids;                      /* those that follow are known */
    union ibv_gid own_gid, peer_gid;
    uint8_t own_gid_index;
    uint32_t outstanding_reads;     /* a QP, as negotiated */
};

/* What the files do not tell. */
struct zc_doctor_facts {
    const char *root;               /* "": this host's own files; else the folder that has sys and proc in it */
    struct zc_device_info device;   /* name "": there is none */
    uint64_t memlock_limit_bytes;   /* UINT64_MAX is unlimited */
    uint64_t region_bytes;          /* that this process has registered for its peers */
    char fork_safe[ZC_NAME_MAX], hugepages_safe[ZC_NAME_MAX];       /* RDMAV_...; "" unset */
    int relaxed_ordering;           /* 1: the device takes it; 0: not; -1 unknown */
    uint32_t cpus;                  /* that this process may use */
    uint32_t runs_active, sessions_open;    /* of ours: they move counters, too */
    void (*pause)(void *arg);       /* between two readings of counters */
    void *pause_arg;
    double pause_s;                 /* how long that takes */
    struct zc_doctor_peer peer;
};

/* This process and the device (NULL: there is none), no peer, a pause of a second. Registers a page to learn about relaxed ordering. */
void zc_doctor_facts_read(const struct zc_device *device, struct zc_doctor_facts *facts);

/* Connect to the peer (5 s at most, or until cancelled), look at the connection, read from it, close. Fills facts->peer but for `name`
 * and `self`. */
void zc_doctor_ask_peer(const struct zc_probe_params *params, struct zc_doctor_peer *peer);

/* All checks: one finding each but for those of a peer where none is asked. Returns how many. Pauses once. */
size_t zc_doctor_check(const struct zc_doctor_facts *facts, struct zc_finding findings[ZC_FINDINGS_MAX]);

#endif
