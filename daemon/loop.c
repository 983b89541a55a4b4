/* The event loop on libev, and the only file that includes it. See loop.h. */
#include "loop.h"

#include <errno.h>
#include <ev.h>
#include <stdlib.h>

struct loop {
    struct ev_loop *ev;
};

struct loop_io {
    ev_io watcher;
    struct loop *loop;
    int events;
    void (*ready)(void *arg, int events);
    void *arg;
};

struct loop_timer {
    ev_timer watcher;
    struct loop *loop;
    void (*fire)(void *arg);
    void *arg;
};

struct loop_signal {
    ev_signal watcher;
    struct loop *loop;
    void (*arrived)(void *arg, int number);
    void *arg;
};

struct loop_wake {
    ev_async watcher;
    struct loop *loop;
    void (*woken)(void *arg);
    void *arg;
};

int loop_create(struct loop **loop)
{
    struct loop *created = calloc(1, sizeof *created);
    if (!created)
        return -ENOMEM;
    created->ev = ev_loop_new(EVFLAG_AUTO);
    if (!created->ev) {
        free(created);
        return -ENOMEM;
    }
    *loop = created;
    return 0;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    ev_loop_destroy(loop->ev);
    free(loop);
}

void loop_run(struct loop *loop)
{
    ev_run(loop->ev, 0);
}

void loop_stop(struct loop *loop)
{
    ev_break(loop->ev, EVBREAK_ALL);
}

static int to_ev(int events)
{
    return (events & LOOP_READ ? EV_READ : 0) | (events & LOOP_WRITE ? EV_WRITE : 0);
}

static void on_io(struct ev_loop *ev, ev_io *watcher, int revents)
{
    struct loop_io *io = watcher->data;
    (void)ev;
    io->ready(io->arg, (revents & EV_READ ? LOOP_READ : 0) | (revents & EV_WRITE ? LOOP_WRITE : 0));
}

int loop_io_create(struct loop *loop, int fd, int events, void (*ready)(void *arg, int events), void *arg, struct loop_io **io)
{
    struct loop_io *created = calloc(1, sizeof *created);
    if (!created)
        return -ENOMEM;
    created->loop = loop;
    created->ready = ready;
    created->arg = arg;
    ev_io_init(&created->watcher, on_io, fd, 0);
    created->watcher.data = created;
    loop_io_set(created, events);
    *io = created;
    return 0;
}

void loop_io_set(struct loop_io *io, int events)
{
    if (io->events == events)
        return;
    ev_io_stop(io->loop->ev, &io->watcher);
    ev_io_set(&io->watcher, io->watcher.fd, to_ev(events));
    io->events = events;
    if (events)
        ev_io_start(io->loop->ev, &io->watcher);
}

void loop_io_destroy(struct loop_io *io)
{
    if (!io)
        return;
    ev_io_stop(io->loop->ev, &io->watcher);
    free(io);
}

static void on_timer(struct ev_loop *ev, ev_timer *watcher, int revents)
{
    struct loop_timer *timer = watcher->data;
    (void)ev;
    (void)revents;
    timer->fire(timer->arg);
}

int loop_timer_create(struct loop *loop, void (*fire)(void *arg), void *arg, struct loop_timer **timer)
{
    struct loop_timer *created = calloc(1, sizeof *created);
    if (!created)
        return -ENOMEM;
    created->loop = loop;
    created->fire = fire;
    created->arg = arg;
    ev_timer_init(&created->watcher, on_timer, 0., 0.);
    created->watcher.data = created;
    *timer = created;
    return 0;
}

void loop_timer_start(struct loop_timer *timer, double after_s, double repeat_s)
{
    struct ev_loop *ev = timer->loop->ev;
    ev_timer_stop(ev, &timer->watcher);
    /* libev counts from the beginning of the turn; a long turn must not shorten the time. */
    ev_timer_set(&timer->watcher, after_s > 0. ? ev_time() - ev_now(ev) + after_s : 0., repeat_s);
    ev_timer_start(ev, &timer->watcher);
}

void loop_timer_stop(struct loop_timer *timer)
{
    ev_timer_stop(timer->loop->ev, &timer->watcher);
}

void loop_timer_destroy(struct loop_timer *timer)
{
    if (!timer)
        return;
    loop_timer_stop(timer);
    free(timer);
}

static void on_signal(struct ev_loop *ev, ev_signal *watcher, int revents)
{
    struct loop_signal *signal = watcher->data;
    (void)ev;
    (void)revents;
    signal->arrived(signal->arg, watcher->signum);
}

int loop_signal_create(struct loop *loop, int number, void (*arrived)(void *arg, int number), void *arg,
                       struct loop_signal **signal)
{
    struct loop_signal *created = calloc(1, sizeof *created);
    if (!created)
        return -ENOMEM;
    created->loop = loop;
    created->arrived = arrived;
    created->arg = arg;
    ev_signal_init(&created->watcher, on_signal, number);
    created->watcher.data = created;
    ev_signal_start(loop->ev, &created->watcher);
    *signal = created;
    return 0;
}

void loop_signal_destroy(struct loop_signal *signal)
{
    if (!signal)
        return;
    ev_signal_stop(signal->loop->ev, &signal->watcher);
    free(signal);
}

static void on_wake(struct ev_loop *ev, ev_async *watcher, int revents)
{
    struct loop_wake *wake = watcher->data;
    (void)ev;
    (void)revents;
    wake->woken(wake->arg);
}

int loop_wake_create(struct loop *loop, void (*woken)(void *arg), void *arg, struct loop_wake **wake)
{
    struct loop_wake *created = calloc(1, sizeof *created);
    if (!created)
        return -ENOMEM;
    created->loop = loop;
    created->woken = woken;
    created->arg = arg;
    ev_async_init(&created->watcher, on_wake);
    created->watcher.data = created;
    ev_async_start(loop->ev, &created->watcher);
    *wake = created;
    return 0;
}

void loop_wake_send(struct loop_wake *wake)
{
    ev_async_send(wake->loop->ev, &wake->watcher);
}

void loop_wake_destroy(struct loop_wake *wake)
{
    if (!wake)
        return;
    ev_async_stop(wake->loop->ev, &wake->watcher);
    free(wake);
}
