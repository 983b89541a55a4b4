/* CPU time of the calling thread. Called by measure.c around a pass, never inside one. */
#include "clock.h"

#include <sys/resource.h>

static uint64_t timeval_ns(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

void zc_thread_cpu_ns(uint64_t *user_ns, uint64_t *system_ns)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);   /* cannot fail with these arguments */
    *user_ns = timeval_ns(&usage.ru_utime);
    *system_ns = timeval_ns(&usage.ru_stime);
}
