/* See keeper.h. */
#include "keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "connection_private.h"

struct zc_keeper {
    struct zc_connection *connection;
    pthread_t thread;
    pthread_mutex_t lock;       /* held while the connection is touched: after zc_keeper_share() has had it, nobody polls */
    pthread_cond_t changed;
    bool alone, stop;
};

static void *keep(void *arg)
{
    struct zc_keeper *const keeper = arg;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stop) {
        const uint64_t now_ns = zc_now_ns();
        const uint64_t until_ns = now_ns + connection_keep(keeper->connection, keeper->alone, now_ns);
        const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
        pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

static void release(struct zc_keeper *keeper)
{
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

int zc_keeper_create(struct zc_connection *connection, struct zc_keeper **keeper, struct zc_error *err)
{
    pthread_condattr_t monotonic;
    *keeper = NULL;
    if (connection_keep(connection, true, zc_now_ns()) == 0)
        return 0;
    struct zc_keeper *const made = calloc(1, sizeof *made);
    if (!made)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a thread that keeps the session alive");
    *made = (struct zc_keeper){.connection = connection, .alone = true};
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int rc = pthread_create(&made->thread, NULL, keep, made);
    if (rc == 0) {
        pthread_setname_np(made->thread, "zc-keeper");
        *keeper = made;
        return 0;
    }
    release(made);
    return zc_error_set(err, ZC_ERR_RESOURCE, -rc, NULL, "cannot start a thread that keeps the session alive: %s", strerror(rc));
}

void zc_keeper_share(struct zc_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->alone = false;
    pthread_mutex_unlock(&keeper->lock);
}

void zc_keeper_destroy(struct zc_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->stop = true;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    release(keeper);
}
