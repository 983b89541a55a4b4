/* Time for measuring: CLOCK_MONOTONIC nanoseconds and a thread's CPU time; and the wall clock, for saying when. */
#ifndef ZC_CLOCK_H
#define ZC_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t zc_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);     /* vDSO: no system call where the clock source allows it */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* CLOCK_REALTIME, nanoseconds since 1970. It leaps: for documents, never for durations. */
static inline int64_t zc_unix_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* User and system time of the calling thread (getrusage(2), RUSAGE_THREAD). A system call. */
void zc_thread_cpu_ns(uint64_t *user_ns, uint64_t *system_ns);

#endif
