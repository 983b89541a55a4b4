/* The event loop of the daemon's main thread: descriptors, timers, signals, and wake-ups from other threads. Only loop.c knows
 * which library is behind it. Everything here belongs to the main thread, loop_wake_send() excepted. Callbacks may destroy the
 * watcher that called them. */
#ifndef ZC_DAEMON_LOOP_H
#define ZC_DAEMON_LOOP_H

struct loop;
struct loop_io;
struct loop_timer;
struct loop_signal;
struct loop_wake;

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

/* 0 or a negative errno. Every watcher is destroyed before its loop. */
int loop_create(struct loop **loop);
void loop_destroy(struct loop *loop);
/* Until loop_stop(). */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* Watch fd for `events` (LOOP_READ | LOOP_WRITE, 0: nothing now). A hang-up or error is told as whatever is watched. The fd
 * stays the caller's; destroy the watcher before closing it. 0 or -ENOMEM. */
int loop_io_create(struct loop *loop, int fd, int events, void (*ready)(void *arg, int events), void *arg, struct loop_io **io);
void loop_io_set(struct loop_io *io, int events);
void loop_io_destroy(struct loop_io *io);   /* NULL is allowed, here and below */

/* Created stopped. start: fires after `after_s` seconds (0: in the next turn, behind what is ready then) and, with repeat_s > 0,
 * every repeat_s from there; starting a running timer starts it anew. */
int loop_timer_create(struct loop *loop, void (*fire)(void *arg), void *arg, struct loop_timer **timer);
void loop_timer_start(struct loop_timer *timer, double after_s, double repeat_s);
void loop_timer_stop(struct loop_timer *timer);
void loop_timer_destroy(struct loop_timer *timer);

/* The signal becomes a callback in the loop. One loop of the process at a time may watch a signal. */
int loop_signal_create(struct loop *loop, int number, void (*arrived)(void *arg, int number), void *arg,
                       struct loop_signal **signal);
void loop_signal_destroy(struct loop_signal *signal);

/* loop_wake_send() may be called by any thread, takes no lock and never blocks; several sends may become one callback. */
int loop_wake_create(struct loop *loop, void (*woken)(void *arg), void *arg, struct loop_wake **wake);
void loop_wake_send(struct loop_wake *wake);
void loop_wake_destroy(struct loop_wake *wake);

#endif
