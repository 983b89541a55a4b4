/* The device thread: doorbells, the list of queue pairs with work, sockets, timers, and sleeping when there is nothing.
 * Posting rings with zs_ring(); what control calls leave behind under zs_lock() is seen by zs_unlock(), which wakes the thread. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

#define QUANTUM_QPS 16
#define EVENTS 64
#define LOST_CORE_NS 30000u
#define CONTENDED_SLEEPS 1000u
#define SPIN_DEFAULT_US 10
#define SPIN_LONG_NS 200000u
#define SLICE_NS 100000u
#define NICE (-5)
#define EXIT_FLUSH_NS 200000000u
#define MODEL_SPIN_NS 100000u /* a model of microseconds cannot be kept by sleeping */

struct zs_dev zs_dev = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .gate = PTHREAD_MUTEX_INITIALIZER,
    .epoll_fd = -1,
    .wake_fd = -1,
    .next_timer_ns = UINT64_MAX,
    .ready = {&zs_dev.ready, &zs_dev.ready},
    .timers = {&zs_dev.timers, &zs_dev.timers},
    .links = {&zs_dev.links, &zs_dev.links},
    .dirty = {&zs_dev.dirty, &zs_dev.dirty},
    .more = {&zs_dev.more, &zs_dev.more},
    .contexts = {&zs_dev.contexts, &zs_dev.contexts},
};

/* Whoever waits for the lock holds the gate meanwhile, and the device thread needs the gate to come back for its next
 * quantum: so a control call waits for one quantum, however busy the device is. */
void zs_lock(void)
{
    pthread_mutex_lock(&zs_dev.gate);
    pthread_mutex_lock(&zs_dev.lock);
    pthread_mutex_unlock(&zs_dev.gate);
}

static void wake(void)
{
    if (atomic_load(&zs_dev.asleep) && atomic_exchange(&zs_dev.asleep, 0)) {
        uint64_t one = 1;
        if (write(zs_dev.wake_fd, &one, sizeof one) < 0)
            return; /* only EAGAIN is possible: the counter is already set */
    }
}

/* Queue pairs, links, sources or a timer that the device thread did not know of when it fell asleep. */
static bool work_is_left(void)
{
    return !zs_list_empty(&zs_dev.ready) || !zs_list_empty(&zs_dev.dirty) || zs_dev.dead ||
           zs_dev.next_timer_ns < zs_dev.sleep_until_ns;
}

/* No control call has to remember to wake the device thread, and none can forget it. `asleep` is set under the lock only. */
void zs_unlock(void)
{
    bool needed = atomic_load(&zs_dev.asleep) && work_is_left();
    pthread_mutex_unlock(&zs_dev.lock);
    if (needed)
        wake();
}

uint64_t zs_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void zs_spin_wait(zs_spin *s)
{
    unsigned int n = 0;
    while (atomic_flag_test_and_set_explicit(&s->held, memory_order_acquire)) {
        if (++n < 64)
            __builtin_ia32_pause();
        else
            sched_yield(); /* the holder was descheduled */
    }
}

/* --- doorbells ----------------------------------------------------------------------------------------------------- */

/* A queue pair is on the doorbell stack at most once. `rung` is cleared by the device before it looks at the queues, so
 * a post that comes later rings again; both sides use sequentially consistent operations, or a wake-up could be lost. */
void zs_ring(struct zs_qp *qp)
{
    if (!atomic_exchange(&qp->rung, 1)) {
        struct zs_qp *top = atomic_load(&zs_dev.bells);
        do
            qp->bell_next = top;
        while (!atomic_compare_exchange_weak(&zs_dev.bells, &top, qp));
    }
    wake();
}

static void drain_bells(void)
{
    if (!atomic_load_explicit(&zs_dev.bells, memory_order_relaxed))
        return;
    struct zs_qp *qp = atomic_exchange(&zs_dev.bells, NULL);
    while (qp) {
        struct zs_qp *next = qp->bell_next;
        atomic_store(&qp->rung, 0);
        zs_ready(qp);
        qp = next;
    }
}

void zs_ready(struct zs_qp *qp)
{
    if (zs_list_empty(&qp->ready_link))
        zs_list_add(&zs_dev.ready, &qp->ready_link);
}

/* For ibv_destroy_qp and modifications: neither the stack nor the list may know the QP afterwards. */
void zs_unready(struct zs_qp *qp)
{
    drain_bells();
    zs_list_del(&qp->ready_link);
}

/* --- event sources ------------------------------------------------------------------------------------------------- */

int zs_source_add(struct zs_source *s, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};
    s->events = events;
    s->dead = false;
    if (epoll_ctl(zs_dev.epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) < 0)
        return errno;
    zs_fd_track(s->fd);
    return 0;
}

void zs_source_want(struct zs_source *s, uint32_t events)
{
    if (s->dead || s->events == events)
        return;
    struct epoll_event ev = {.events = events, .data.ptr = s};
    s->events = events;
    epoll_ctl(zs_dev.epoll_fd, EPOLL_CTL_MOD, s->fd, &ev);
}

/* The memory stays until the device thread has passed a point where no fetched event can name it. */
void zs_source_close(struct zs_source *s)
{
    if (s->dead)
        return;
    s->dead = true;
    zs_fd_untrack(s->fd);
    /* close(2) alone removes a descriptor from epoll only if it has no duplicate, and a greeting hands one on. */
    epoll_ctl(zs_dev.epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    close(s->fd);
    s->fd = -1;
    s->next_dead = zs_dev.dead;
    zs_dev.dead = s;
}

static void bury(void)
{
    while (zs_dev.dead) {
        struct zs_source *s = zs_dev.dead;
        zs_dev.dead = s->next_dead;
        if (s->release)
            s->release(s);
    }
}

/* --- timers: few at a time, so a list; scanned only when the earliest is due ------------------------------------------ */

void zs_timer_set(struct zs_timer *t, uint64_t at_ns, void (*fire)(struct zs_timer *t))
{
    t->at_ns = at_ns;
    t->fire = fire;
    if (!t->armed) {
        t->armed = true;
        zs_list_add(&zs_dev.timers, &t->link);
    }
    if (at_ns < zs_dev.next_timer_ns)
        zs_dev.next_timer_ns = at_ns;
}

void zs_timer_clear(struct zs_timer *t)
{
    if (t->armed) {
        t->armed = false;
        zs_list_del(&t->link);
    }
}

static void fire_timers(void)
{
    if (zs_list_empty(&zs_dev.timers)) {
        zs_dev.next_timer_ns = UINT64_MAX;
        return;
    }
    uint64_t now = zs_now_ns();
    if (now < zs_dev.next_timer_ns)
        return;
    struct zs_list due;
    zs_list_init(&due);
    uint64_t next = UINT64_MAX;
    for (struct zs_list *l = zs_dev.timers.next, *n; l != &zs_dev.timers; l = n) {
        struct zs_timer *t = zs_container(l, struct zs_timer, link);
        n = l->next;
        if (t->at_ns <= now) {
            zs_list_del(l);
            zs_list_add(&due, l);
        } else if (t->at_ns < next) {
            next = t->at_ns;
        }
    }
    zs_dev.next_timer_ns = next;
    while (!zs_list_empty(&due)) { /* a handler may clear any other timer, due ones included */
        struct zs_timer *t = zs_container(due.next, struct zs_timer, link);
        zs_list_del(&t->link);
        t->armed = false;
        t->fire(t);
    }
}

/* --- the loop ----------------------------------------------------------------------------------------------------------- */

static bool run_ready(void)
{
    int n = 0;
    while (n < QUANTUM_QPS && !zs_list_empty(&zs_dev.ready)) {
        struct zs_qp *qp = zs_container(zs_dev.ready.next, struct zs_qp, ready_link);
        zs_list_del(&qp->ready_link);
        bool more = zs_responder_run(qp);
        if (atomic_load_explicit(&qp->sq_tail, memory_order_relaxed) != qp->sq_next)
            zs_link_flush_answers(qp);
        more |= zs_requester_run(qp);
        if (more)
            zs_ready(qp);
        n++;
    }
    return n > 0;
}

static void dispatch_one(struct zs_source *s, uint32_t events)
{
    uint64_t count;
    if (s && !s->dead)
        s->ready(s, events);
    else if (!s && read(zs_dev.wake_fd, &count, sizeof count) < 0)
        errno = 0;
}

/* Acknowledgements come before requests: a peer that answers a message with a message acknowledges it first, and
 * programs have come to count on the order (one channel for both CQs, one event for each). */
static void dispatch(const struct epoll_event *ev, int n)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            struct zs_source *s = ev[i].data.ptr;
            if ((s && s->answers) == (pass == 0))
                dispatch_one(s, ev[i].events);
        }
}

static int wait_events(struct epoll_event *ev, int max, uint64_t until_ns)
{
    struct timespec t, *tp = NULL;
    if (until_ns != UINT64_MAX) {
        uint64_t now = zs_now_ns();
        uint64_t left = until_ns > now ? until_ns - now : 0;
        t = (struct timespec){.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
        tp = &t;
    }
    int n = epoll_pwait2(zs_dev.epoll_fd, ev, max, tp, NULL);
    if (n < 0 && errno == ENOSYS)
        n = epoll_wait(zs_dev.epoll_fd, ev, max, tp ? (int)(t.tv_sec * 1000 + t.tv_nsec / 1000000 + 1) : -1);
    return n;
}

/* One turn under the lock. True if there was anything to do. */
static bool turn(const struct epoll_event *ev, int n)
{
    bool more = zs_links_go_on();
    if (n > 0)
        dispatch(ev, n);
    drain_bells();
    bool busy = run_ready() || n > 0 || more;
    fire_timers();
    zs_link_flush_dirty();
    bury();
    return busy;
}

/* A device does not wait for a time slice: after sleeping it must run at once although the application's threads poll
 * on every core. A short slice gives an early deadline (Linux 6.12 on; ignored before) and needs no privilege; where
 * the process may, the thread also gets some priority. */
static void ask_for_priority(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {.size = sizeof a, .policy = SCHED_OTHER, .runtime = SLICE_NS};
    if (sched_getscheduler(0) != SCHED_OTHER)
        return; /* inherited, or given by now: a program in real time would starve a thread that is not */
    int own = getpriority(PRIO_PROCESS, 0);
    a.nice = own + NICE < -20 ? -20 : own + NICE; /* than the application's threads, whatever they have */
    if (syscall(SYS_sched_setattr, 0, &a, 0) == 0)
        return;
    a.nice = own;
    syscall(SYS_sched_setattr, 0, &a, 0);
}

static void lock_for_turn(void)
{
    pthread_mutex_lock(&zs_dev.gate);
    pthread_mutex_lock(&zs_dev.lock);
    pthread_mutex_unlock(&zs_dev.gate);
}

/* Within one process the work comes in a rhythm: while the application copies a chunk out there is nothing to do, and a device
 * that falls asleep then is woken, late, for the next. A sleep that turned out shorter than a copy lasts is a mistake which
 * the next lingers avoid; a long one ends that. Between processes two of these threads and two of the application's may share
 * few cores, so there the short time stands. tests/bench/run overlap shows what it is worth. */
static uint64_t linger_ns;
static bool spin_given;

/* Work often follows work: look for it a moment longer before paying for a sleep and a wake-up. No lock is held, so
 * control calls pass; what they leave behind is found by the next turn. Returns the events found.
 * Where the cores are contended this backfires - the thread that would make the work waits behind the one that looks for
 * it - and shows in the thread losing its core while it looks: then it sleeps at once for the next many times. */
static int linger(struct epoll_event *ev, int max, bool linked)
{
    static unsigned int contended;
    uint64_t start = zs_now_ns(), now, window = linked ? zs_dev.spin_ns : linger_ns;
    int n = 0;
    if (contended && contended--)
        return 0;
    do {
        for (int i = 0; i < 8; i++) {
            if (atomic_load_explicit(&zs_dev.bells, memory_order_relaxed))
                return 0;
            __builtin_ia32_pause();
        }
        n = linked ? epoll_wait(zs_dev.epoll_fd, ev, max, 0) : 0;
        now = zs_now_ns();
    } while (!n && now - start < window);
    if (now - start > window + 2 * zs_dev.spin_ns + LOST_CORE_NS)
        contended = CONTENDED_SLEEPS;
    return n > 0 ? n : 0;
}

static int sleep_until(struct epoll_event *ev, int max, uint64_t until_ns)
{
    uint64_t start = zs_now_ns();
    int n = atomic_load(&zs_dev.bells) ? 0 : wait_events(ev, max, until_ns);
    atomic_store(&zs_dev.asleep, 0);
    if (!spin_given)
        linger_ns = zs_now_ns() - start < SPIN_LONG_NS ? SPIN_LONG_NS : zs_dev.spin_ns;
    return n;
}

static void *device_main(void *arg)
{
    (void)arg;
    ask_for_priority();
    if (zs_model.on)
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    struct epoll_event ev[EVENTS];
    int n = 0;
    unsigned int turns = 0;
    bool lingered = false;

    for (;;) {
        lock_for_turn();
        bool busy = turn(ev, n) || !zs_list_empty(&zs_dev.ready) || !zs_list_empty(&zs_dev.more);
        bool linked = !zs_list_empty(&zs_dev.links);
        uint64_t until = zs_dev.next_timer_ns;
        bool sleep = !busy && lingered && !(zs_model.on && until < zs_now_ns() + MODEL_SPIN_NS);
        if (sleep) { /* told under the lock: whoever makes work from here on writes to wake_fd */
            zs_dev.sleep_until_ns = until;
            atomic_store(&zs_dev.asleep, 1);
        }
        zs_unlock();

        lingered = false;
        n = 0;
        if (sleep) {
            n = sleep_until(ev, EVENTS, until);
        } else if (!busy) {
            n = linger(ev, EVENTS, linked);
            lingered = true;
        } else if (linked || (++turns & 31) == 0) {
            n = epoll_wait(zs_dev.epoll_fd, ev, EVENTS, 0);
        }
    }
    return NULL;
}

static int open_fds(void)
{
    zs_dev.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (zs_dev.epoll_fd < 0)
        return errno;
    zs_dev.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (zs_dev.wake_fd < 0 || epoll_ctl(zs_dev.epoll_fd, EPOLL_CTL_ADD, zs_dev.wake_fd, &ev) < 0) {
        int e = errno;
        if (zs_dev.wake_fd >= 0)
            close(zs_dev.wake_fd);
        close(zs_dev.epoll_fd);
        zs_dev.epoll_fd = zs_dev.wake_fd = -1;
        return e;
    }
    zs_fd_track(zs_dev.epoll_fd);
    zs_fd_track(zs_dev.wake_fd);
    return 0;
}

int zs_dev_start(void)
{
    if (zs_dev.forked)
        return EIO;
    if (zs_dev.running)
        return 0;
    int e = zs_dev.epoll_fd < 0 ? open_fds() : 0;
    if (e)
        return e;
    if (getrandom(&zs_dev.instance, sizeof zs_dev.instance, 0) != sizeof zs_dev.instance)
        zs_dev.instance = zs_now_ns() ^ ((uint64_t)getpid() << 32);
    const char *spin = getenv("ZCSOFT_SPIN_US");
    spin_given = spin != NULL;
    linger_ns = zs_dev.spin_ns = (spin ? strtoull(spin, NULL, 10) : SPIN_DEFAULT_US) * 1000u;
    const char *transport = getenv("ZCSOFT_TRANSPORT");
    zs_dev.no_unix = transport && strcmp(transport, "tcp") == 0;
    zs_dev.no_direct = transport && strcmp(transport, "direct") != 0 && strcmp(transport, "memory") != 0;
    zs_dev.no_shortcut = transport && (strcmp(transport, "direct") == 0 || strcmp(transport, "unix") == 0 || zs_dev.no_unix);
    e = zs_listen_start();
    if (e)
        return e;
    sigset_t all, old; /* the application's handlers must never run on this thread */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* guard.c */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&zs_dev.thread, NULL, device_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e)
        return e;
    pthread_setname_np(zs_dev.thread, "zcsoft");
    zs_dev.running = true;
    return 0;
}

ZS_EXPORT uint64_t zcsoft_device_cpu_ns(void)
{
    clockid_t id;
    struct timespec t;
    zs_lock();
    bool ok = zs_dev.running && !zs_dev.forked && !pthread_getcpuclockid(zs_dev.thread, &id) && !clock_gettime(id, &t);
    zs_unlock();
    return ok ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec : 0;
}

/* --- exit and fork -------------------------------------------------------------------------------------------------------- */

/* A NIC acknowledges before the receiver can know of the message; here an answer may still be queued when the program
 * that got its message exits. Give the thread a moment to send what it owes. */
__attribute__((destructor)) static void flush_at_exit(void)
{
    uint64_t until = zs_now_ns() + EXIT_FLUSH_NS;
    if (zs_dev.running && pthread_equal(pthread_self(), zs_dev.thread))
        return; /* a handler of the program's calls exit() on this thread, which may hold the lock */
    while (zs_dev.running && !zs_dev.forked && zs_now_ns() < until) {
        zs_lock();
        bool owing = !zs_list_empty(&zs_dev.dirty);
        for (uint32_t i = 0; i < zs_dev.qp_slots && !owing; i++) {
            struct zs_qp *qp = zs_dev.qps[i];
            owing = qp && qp->rlink && (qp->ack_due || qp->nak_code);
        }
        zs_unlock();
        if (!owing)
            return;
        usleep(200);
    }
}

static void fork_prepare(void)
{
    zs_lock();
    zs_memory_fork_prepare();
}

static void fork_parent(void)
{
    zs_memory_fork_done(false);
    zs_unlock();
}

static void fork_child(void)
{
    zs_memory_fork_done(true);
    if (zs_dev.running || zs_dev.epoll_fd >= 0) {
        zs_dev.forked = true;
        zs_dev.running = false;
        atomic_store(&zs_dev.asleep, 0); /* there is no thread to be woken, and wake_fd will be another file */
        zs_fds_close_in_child(); /* or the peers would not notice the parent's death */
    }
    zs_unlock();
}

__attribute__((constructor)) static void watch_fork(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

bool zs_usable(void)
{
    if (!zs_dev.forked)
        return true;
    errno = EIO;
    return false;
}
