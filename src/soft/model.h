/* What the environment adds to the device: a model of a NIC's speed (model.c) and scripted faults (faults.c). Both are
 * off unless asked for; then each costs the data path one test of a flag. zcsoft.h tells what can be set. */
#ifndef ZCSOFT_MODEL_H
#define ZCSOFT_MODEL_H

#include "soft.h"

struct zs_model {
    bool on;             /* rate or latency: the device thread looks at the clock before it starts a request */
    uint64_t rate;       /* bit/s, 0: unlimited */
    uint64_t latency_ns;
    uint64_t reg_ns;
    uint64_t wire_free_ns; /* device thread: when the wire has carried what was started so far */
};

enum zs_fault { ZS_FAULT_REG, ZS_FAULT_WC, ZS_FAULT_LINK, ZS_FAULT_CM, ZS_FAULTS };

extern struct zs_model zs_model;
extern bool zs_faults_on[ZS_FAULTS]; /* the script says something of this kind */

/* Reads the environment, once. False (with one line on stderr the first time) if it is not understood. */
bool zs_model_ready(void);

/* Device thread, zs_model.on: may this request start, or is it to be looked at again (by a timer of its own) later? */
bool zs_model_holds(struct zs_qp *qp, struct zs_wqe *w);
void zs_model_register(void); /* lets the time of a registration pass */

/* Counts one more event of the kind. What the script says for it, 0 if nothing: an errno (REG), a status (WC), 1 (LINK, CM). */
int zs_fault(enum zs_fault kind);
bool zs_faults_parse(const char *script); /* faults.c: false if it is not understood */

#endif
