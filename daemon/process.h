/* What the kernel says about this process. */
#ifndef ZC_DAEMON_PROCESS_H
#define ZC_DAEMON_PROCESS_H

#include <stdint.h>

struct process_info {
    uint64_t rss_bytes, fds, threads;   /* ZC_UNMEASURED if unknown */
};

/* Reads /proc/self. */
void process_info(struct process_info *info);

#endif
