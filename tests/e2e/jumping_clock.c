/* Preloaded: the wall clock of the program leaps by an hour at every look, forwards and back. Durations must not notice. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static time_t leap(void)
{
    static atomic_uint looks;
    return atomic_fetch_add(&looks, 1) % 2 ? 3600 : -3600;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *t)
{
    static _Atomic(int (*)(clockid_t, struct timespec *)) real;
    int (*found)(clockid_t, struct timespec *) = atomic_load(&real);
    if (!found) {
        found = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        atomic_store(&real, found);
    }
    int status = found(clock, t);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += leap();
    return status;
}

EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    if (status == 0)
        *t = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return status;
}

EXPORT time_t time(time_t *t)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}
