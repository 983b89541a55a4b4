/* See metrics.h. The loop makes the text, the worker's thread writes it: to a temporary name beside the file, then renamed, so that
 * nobody reads half of it. */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_stats.h"
#include "log.h"
#include "zc_metrics.h"

struct metrics {
    struct daemon *daemon;
    struct loop_timer *timer;
    char path[PATH_MAX];        /* "": none */
    bool writing;               /* one job at a time */
    bool failing;               /* and has been logged */
};

struct metrics_job {
    struct worker_job job;      /* first: the worker hands it back */
    struct metrics *metrics;
    char path[PATH_MAX];
    char *text;
    int failed;                 /* 0 or a negative errno */
};

static int write_text(int fd, const char *text)
{
    size_t length = strlen(text);
    while (length) {
        ssize_t written = write(fd, text, length);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            text += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

static void on_work(struct worker_job *worker_job)
{
    struct metrics_job *job = (struct metrics_job *)worker_job;
    char temporary[PATH_MAX];
    job->failed = -ENAMETOOLONG;
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", job->path) >= sizeof temporary)
        return;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    job->failed = fd < 0 ? -errno : write_text(fd, job->text);
    if (fd >= 0 && close(fd) != 0 && !job->failed)
        job->failed = -errno;
    if (!job->failed && rename(temporary, job->path) != 0)
        job->failed = -errno;
    if (job->failed && fd >= 0)
        unlink(temporary);
}

static void on_done(struct worker_job *worker_job, bool worked)
{
    struct metrics_job *job = (struct metrics_job *)worker_job;
    struct metrics *metrics = job->metrics;
    metrics->writing = false;
    if (worked && job->failed && !metrics->failing)
        log_error("metrics_file %s cannot be written: %s", job->path, strerror(-job->failed));
    metrics->failing = worked && job->failed;
    free(job->text);
    free(job);
}

static void on_timer(void *arg)
{
    struct metrics *metrics = arg;
    if (metrics->writing)
        return;         /* a slow disk: the next time has newer counters anyway */
    json_t *stats = stats_to_json(metrics->daemon);
    struct metrics_job *job = calloc(1, sizeof *job);
    char *text = stats ? zc_metrics(stats, ZC_METRICS_PROMETHEUS) : NULL;
    json_decref(stats);
    if (!job || !text) {
        free(job);
        free(text);
        return;
    }
    job->job = (struct worker_job){ .work = on_work, .done = on_done };
    job->metrics = metrics;
    job->text = text;
    memcpy(job->path, metrics->path, sizeof job->path);
    metrics->writing = true;
    worker_submit(metrics->daemon->worker, &job->job);
}

static void remove_file(const struct metrics *metrics)
{
    if (*metrics->path && unlink(metrics->path) != 0 && errno != ENOENT)
        log_warning("metrics_file %s cannot be removed: %s", metrics->path, strerror(errno));
}

void metrics_reload(struct daemon *daemon)
{
    struct metrics *metrics = daemon->metrics;
    const struct config *config = &daemon->config;
    if (strcmp(metrics->path, config->metrics_file) != 0) {
        remove_file(metrics);
        memcpy(metrics->path, config->metrics_file, sizeof metrics->path);
    }
    loop_timer_stop(metrics->timer);
    if (*metrics->path)
        loop_timer_start(metrics->timer, 0., (double)config->metrics_interval_s);
}

int metrics_start(struct daemon *daemon, struct zc_error *err)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics || loop_timer_create(daemon->loop, on_timer, metrics, &metrics->timer) != 0) {
        free(metrics);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "metrics: out of memory");
    }
    metrics->daemon = daemon;
    daemon->metrics = metrics;
    metrics_reload(daemon);
    return 0;
}

void metrics_stop(struct daemon *daemon)
{
    struct metrics *metrics = daemon->metrics;
    if (!metrics)
        return;
    loop_timer_destroy(metrics->timer);
    remove_file(metrics);
    free(metrics);
    daemon->metrics = NULL;
}
