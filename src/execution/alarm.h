/* How threads wake the one owner of a pipeline that may sleep in poll(2) or epoll(7): a descriptor, written only while the owner says
 * that it is going to sleep, so that handing over costs no system call as long as it is awake. */
#ifndef ZC_ALARM_H
#define ZC_ALARM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>

struct zc_alarm {
    atomic_bool armed;
    int fd;                     /* eventfd(2), non-blocking */
};

/* The owner: arm, look whether something has come in the meantime, and only then sleep on the descriptor. Both sides use sequentially
 * consistent accesses - also for what is handed over - so that one of the two always sees the other. */
static inline void zc_alarm_arm(struct zc_alarm *alarm)
{
    atomic_store(&alarm->armed, true);
}
/* The owner, awake again. Read in any case: a ring that was late for one sleep must not end every later one. */
static inline void zc_alarm_quench(struct zc_alarm *alarm)
{
    eventfd_t count;
    atomic_store(&alarm->armed, false);
    eventfd_read(alarm->fd, &count);
}
/* Any thread, after it has handed something over. */
static inline void zc_alarm_ring(struct zc_alarm *alarm)
{
    if (atomic_load(&alarm->armed) && atomic_exchange(&alarm->armed, false))
        eventfd_write(alarm->fd, 1);
}

#endif
