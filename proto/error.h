/* One small error value, made where an error is classified and carried up to the edge that shows or logs it.
 * Used by every part; no allocation, no ownership. */
#ifndef ZC_ERROR_H
#define ZC_ERROR_H

#include <stdbool.h>

enum { ZC_ERROR_FIELD_MAX = 32, ZC_ERROR_MESSAGE_MAX = 384 };

/* What kind of failure it is; proto/rpc.c maps it to a JSON-RPC code, zcctl to an exit status. */
enum zc_error_kind {
    ZC_ERR_NONE = 0,
    ZC_ERR_INVALID,     /* an option, parameter or configuration value is wrong; field names it */
    ZC_ERR_NOT_FOUND,   /* no such run, result, session, device */
    ZC_ERR_BUSY,        /* a limit is reached; try later */
    ZC_ERR_DENIED,      /* no permission */
    ZC_ERR_PEER,        /* the peer refused, did not answer, spoke something else or was lost */
    ZC_ERR_MEMLOCK,     /* RLIMIT_MEMLOCK is too low: the message names limit, need and fix */
    ZC_ERR_RESOURCE,    /* out of memory, descriptors, QPs, disk */
    ZC_ERR_DEVICE,      /* the local RDMA device or port failed */
    ZC_ERR_VALIDATION,  /* the bytes read are not the peer's */
    ZC_ERR_UNMEASURED,  /* nothing completed in the measured window */
    ZC_ERR_CANCELLED,   /* cancelled by the user or by shutdown */
    ZC_ERR_INTERNAL,    /* a bug of ours */
};

struct zc_error {
    enum zc_error_kind kind;
    int errnum;                          /* negative errno, 0 when no system error lies behind it */
    char field[ZC_ERROR_FIELD_MAX];      /* the offending option or parameter in its JSON spelling, or "" */
    char message[ZC_ERROR_MESSAGE_MAX];  /* one line, no full stop, names the field, run, peer or limit */
};

/* Fill *err (may be NULL). `field` may be NULL; `errnum` may have either sign. Returns the negative errno, -EINVAL for 0, so that
 * callers can write `return zc_error_set(err, ...)`. The message becomes one line of UTF-8 whatever its arguments held: control
 * characters and stray bytes turn into '?'. Any thread. */
int zc_error_set(struct zc_error *err, enum zc_error_kind kind, int errnum, const char *field, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The kind's stable lower-case name, as in `error.kind` of a result: "invalid", "peer", "memlock", ... Static storage. */
const char *zc_error_kind_name(enum zc_error_kind kind);
/* The reverse, for whoever receives an error; ZC_ERR_INTERNAL for a name that is not known. */
enum zc_error_kind zc_error_kind_find(const char *name);

/* Turn control characters and bytes that are not UTF-8 into '?', in place. Returns `text`. Any thread. */
char *zc_text_clean(char *text);

#endif
