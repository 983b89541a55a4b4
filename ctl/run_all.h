/* zcctl run with several strategies: one run after another on the same terms, and one table. */
#ifndef CTL_RUN_ALL_H
#define CTL_RUN_ALL_H

#include <stdbool.h>
#include <stdint.h>

#include "command.h"
#include "options.h"

/* "all", or names with commas between them. */
bool run_all_wanted(const char *strategies);

/* Check everything, then run what `strategies` names. An option that a strategy does not take is left out for it; the ideal ones are
 * left out as a whole unless validation was decided on. Both are said on stderr. A run that fails does not end the others; Ctrl-C
 * does. Returns the exit status: 1 if any failed. */
int run_all(struct context *context, const struct zc_run_options *options, uint64_t given, const char *strategies);

#endif
