/* What others need of the stored results without waiting for the disk. */
#ifndef ZC_DAEMON_CMD_RESULT_H
#define ZC_DAEMON_CMD_RESULT_H

#include "daemon.h"

/* Answer `call` as run.wait does, from the store. CMD_KEPT, or -ENOMEM. */
int cmd_result_outcome(struct daemon *daemon, struct call *call, const char *id, struct zc_error *err);
/* Remove what is beyond max_results and read what is new in the store's folder, in the worker's thread. */
void result_upkeep(struct daemon *daemon);

#endif
