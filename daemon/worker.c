/* See worker.h. Two queues under one lock: to do, and done. */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct queue {
    struct worker_job *first, **last;
};

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct queue waiting, worked;
    bool stopping;
    struct loop_wake *wake;
};

static void queue_init(struct queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

static void queue_put(struct queue *queue, struct worker_job *job)
{
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
}

static struct worker_job *queue_take(struct queue *queue)
{
    struct worker_job *job = queue->first;
    if (job && !(queue->first = job->next))
        queue->last = &queue->first;
    return job;
}

static void *worker_thread(void *arg)
{
    struct worker *worker = arg;
    pthread_mutex_lock(&worker->lock);
    while (!worker->stopping) {
        struct worker_job *job = queue_take(&worker->waiting);
        if (!job) {
            pthread_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        job->work(job);
        pthread_mutex_lock(&worker->lock);
        queue_put(&worker->worked, job);
        loop_wake_send(worker->wake);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static struct worker_job *take(struct worker *worker, struct queue *queue)
{
    pthread_mutex_lock(&worker->lock);
    struct worker_job *job = queue_take(queue);
    pthread_mutex_unlock(&worker->lock);
    return job;
}

static void on_worked(void *arg)
{
    struct worker *worker = arg;
    for (struct worker_job *job; (job = take(worker, &worker->worked));)
        job->done(job, true);
}

/* Signals are the main thread's. */
static int start_thread(struct worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&worker->thread, NULL, worker_thread, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_setname_np(worker->thread, "zc-worker");
    return -failed;
}

int worker_create(struct loop *loop, struct worker **worker, struct zc_error *err)
{
    struct worker *created = calloc(1, sizeof *created);
    if (!created)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "worker: out of memory");
    queue_init(&created->waiting);
    queue_init(&created->worked);
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->changed, NULL);
    int failed = loop_wake_create(loop, on_worked, created, &created->wake);
    if (!failed)
        failed = start_thread(created);
    if (!failed) {
        *worker = created;
        return 0;
    }
    loop_wake_destroy(created->wake);
    pthread_cond_destroy(&created->changed);
    pthread_mutex_destroy(&created->lock);
    free(created);
    return zc_error_set(err, ZC_ERR_RESOURCE, failed, NULL, "worker: cannot start its thread");
}

void worker_destroy(struct worker *worker)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->stopping = true;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    on_worked(worker);
    for (struct worker_job *job; (job = take(worker, &worker->waiting));)
        job->done(job, false);
    loop_wake_destroy(worker->wake);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

void worker_submit(struct worker *worker, struct worker_job *job)
{
    pthread_mutex_lock(&worker->lock);
    queue_put(&worker->waiting, job);
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}
