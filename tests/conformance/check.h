/* One row a check. A check runs in a process of its own, so it cleans nothing up; what it finds out it says with say().
 * main.c runs the rows and compares what was said with what the specification expects. */
#ifndef ZC_CONFORMANCE_CHECK_H
#define ZC_CONFORMANCE_CHECK_H

#include <infiniband/verbs.h>

struct check {
    const char *name;
    void (*run)(const void *arg);
    const char *expected; /* alternatives that the specification leaves open are separated by " | " */
    const char *clause;   /* IBA: InfiniBand Architecture Specification volume 1; otherwise a man page */
    const void *arg;      /* for checks that share a function */
};

/* Tables end with a row without a name. */
extern const struct check state_checks[], create_checks[], post_checks[], data_checks[], order_checks[], access_checks[],
    failure_checks[], flush_checks[], memory_checks[], window_checks[], cq_checks[], srq_checks[], extended_checks[],
    event_checks[], cm_checks[], cm_end_checks[];

/* --- the answer: parts joined with ", ", sent to the parent at once, so that a check that hangs has still said how far
 * it came ---------------------------------------------------------------------------------------------------------------- */
void answer_to(int fd);
void answer_close(void); /* in a process that a check forks */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void give_up(const char *what, int rc); /* a step that the check builds on failed: "broken: what: EINVAL" */
void need(int rc, const char *what);              /* gives up unless rc is 0 */
void *need_ptr(void *p, const char *what);        /* gives up (errno) if p is NULL */

const char *error_name(int rc); /* 0: ok; -1: errno; else the error number, of either sign */
const char *status_name(enum ibv_wc_status status);
const char *opcode_name(enum ibv_wc_opcode opcode);
const char *state_name(enum ibv_qp_state state);
const char *event_name(enum ibv_event_type type);

#endif
