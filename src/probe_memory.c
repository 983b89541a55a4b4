/* What memory costs: registering and deregistering by one thread or several at once, and copying. See probe_private.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "probe_private.h"

enum { COPY_ROOM = 64 << 20 };

/* ---- registering ---- */

struct crew;

/* One of the threads that register at the same time; the first is the caller itself. */
struct worker {
    struct crew *crew;
    pthread_t thread;
    struct zc_buffer buffer;
    uint64_t register_ns, deregister_ns;    /* of the last trial, one operation's share */
    int rc;
    struct zc_error err;
};

/* Workers meet before and after each trial; between two trials only the caller's thread reads and writes here. */
struct crew {
    const struct zc_device *device;
    struct zc_probe_case is;
    pthread_mutex_t gate;       /* held while threads are started: all of them begin, or none */
    pthread_barrier_t barrier;
    unsigned repeats;
    bool over;
    uint32_t started;           /* threads beside the caller's */
    struct worker *workers;     /* is.threads of them */
};

/* Register and deregister once. A cold buffer has its pages taken away first, which nobody's clock sees. */
static int register_once(struct worker *worker, uint64_t *register_ns, uint64_t *deregister_ns)
{
    const struct crew *const crew = worker->crew;
    struct ibv_mr *mr;
    if (crew->is.cold && madvise(worker->buffer.address, worker->buffer.mapped_bytes, MADV_DONTNEED) != 0)
        return zc_error_set(&worker->err, ZC_ERR_RESOURCE, -errno, NULL, "pages cannot be given back: %m");
    const uint64_t start_ns = zc_now_ns();
    int rc = zc_mr_register(crew->device, worker->buffer.address, crew->is.size_bytes, IBV_ACCESS_LOCAL_WRITE, "memory to probe", &mr,
                            &worker->err);
    const uint64_t registered_ns = zc_now_ns();
    if (rc < 0)
        return rc;
    rc = zc_mr_deregister(mr);
    const uint64_t end_ns = zc_now_ns();
    *register_ns += registered_ns - start_ns;
    *deregister_ns += end_ns - registered_ns;
    return rc < 0 ? zc_error_set(&worker->err, ZC_ERR_DEVICE, rc, NULL, "deregistering failed: %s", strerror(-rc)) : 0;
}

static void work(struct worker *worker)
{
    const unsigned repeats = worker->crew->repeats;
    uint64_t register_ns = 0, deregister_ns = 0;
    for (unsigned i = 0; i < repeats && worker->rc == 0; i++)
        worker->rc = register_once(worker, &register_ns, &deregister_ns);
    worker->register_ns = register_ns / repeats;
    worker->deregister_ns = deregister_ns / repeats;
}

static void *worker_thread(void *arg)
{
    struct worker *const worker = arg;
    struct crew *const crew = worker->crew;
    pthread_mutex_lock(&crew->gate);
    const bool begins = !crew->over;
    pthread_mutex_unlock(&crew->gate);
    while (begins) {
        pthread_barrier_wait(&crew->barrier);
        if (crew->over)
            break;
        work(worker);
        pthread_barrier_wait(&crew->barrier);
    }
    return NULL;
}

/* One trial of all: their mean. */
static int crew_trial(struct crew *crew, double *register_s, double *deregister_s, struct zc_error *err)
{
    double there_ns = 0, back_ns = 0;
    pthread_barrier_wait(&crew->barrier);
    work(&crew->workers[0]);
    pthread_barrier_wait(&crew->barrier);
    for (uint32_t i = 0; i < crew->is.threads; i++) {
        const struct worker *const worker = &crew->workers[i];
        if (worker->rc < 0) {
            *err = worker->err;
            return worker->rc;
        }
        there_ns += (double)worker->register_ns;
        back_ns += (double)worker->deregister_ns;
    }
    *register_s = there_ns / crew->is.threads / 1e9;
    *deregister_s = back_ns / crew->is.threads / 1e9;
    return 0;
}

/* Transparent huge pages are asked for, not had: none at all is no figure of theirs. */
static int crew_buffers(struct crew *crew, int numa_node, struct zc_error *err)
{
    for (uint32_t i = 0; i < crew->is.threads; i++) {
        const int rc = zc_buffer_create_pages(crew->is.size_bytes, crew->is.pages, numa_node, &crew->workers[i].buffer, err);
        if (rc < 0)
            return rc;
    }
    if (crew->is.pages == ZC_PAGES_THP && zc_buffer_huge_bytes(&crew->workers[0].buffer) == 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, "pages", "the kernel gave no transparent huge pages");
    return 0;
}

static int crew_start(struct crew *crew, struct zc_error *err)
{
    int errnum = 0;
    pthread_mutex_lock(&crew->gate);
    for (uint32_t i = 1; i < crew->is.threads && errnum == 0; i++) {
        errnum = pthread_create(&crew->workers[i].thread, NULL, worker_thread, &crew->workers[i]);
        crew->started += errnum == 0;
    }
    crew->over = errnum != 0;
    pthread_mutex_unlock(&crew->gate);
    return errnum == 0 ? 0 : zc_error_set(err, ZC_ERR_RESOURCE, -errnum, NULL, "no thread to register with: %s", strerror(errnum));
}

static int crew_create(struct crew *crew, int numa_node, struct zc_error *err)
{
    crew->workers = calloc(crew->is.threads, sizeof *crew->workers);
    if (!crew->workers)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for %u threads", crew->is.threads);
    for (uint32_t i = 0; i < crew->is.threads; i++)
        crew->workers[i].crew = crew;
    pthread_mutex_init(&crew->gate, NULL);
    pthread_barrier_init(&crew->barrier, NULL, crew->is.threads);
    const int rc = crew_buffers(crew, numa_node, err);
    return rc < 0 ? rc : crew_start(crew, err);
}

static void crew_destroy(struct crew *crew)
{
    if (!crew->workers)
        return;
    if (crew->started > 0 && !crew->over) {
        crew->over = true;      /* they wait at the barrier, which orders this */
        pthread_barrier_wait(&crew->barrier);
    }
    for (uint32_t i = 1; i <= crew->started; i++)
        pthread_join(crew->workers[i].thread, NULL);
    for (uint32_t i = 0; i < crew->is.threads; i++)
        zc_buffer_destroy(&crew->workers[i].buffer);
    pthread_barrier_destroy(&crew->barrier);
    pthread_mutex_destroy(&crew->gate);
    free(crew->workers);
}

/* The first is not counted: it shows how long one takes, and a provider may allocate in it. */
static int crew_measure(struct probe_run *run, struct crew *crew, size_t *count, struct zc_error *why)
{
    double there_s, back_s;
    crew->repeats = 1;
    int rc = crew_trial(crew, &there_s, &back_s, why);
    if (rc == 0)
        crew->repeats = probe_repeats((uint64_t)((there_s + back_s) * 1e9));
    const uint64_t start_ns = zc_now_ns();
    for (*count = 0; rc == 0 && probe_more(run, *count, start_ns); ++*count)
        rc = crew_trial(crew, &run->trials_s[*count], &run->back_s[*count], why);
    return rc;
}

int probe_registration(struct probe_run *run, struct zc_probe_row *there, struct zc_probe_row *back)
{
    struct crew crew = { .device = run->params->device, .is = there->is };
    struct zc_error why;
    size_t count = 0;
    int rc = crew_create(&crew, run->numa_node, &why);
    if (rc == 0)
        rc = crew_measure(run, &crew, &count, &why);
    crew_destroy(&crew);
    if (rc < 0) {
        probe_unmeasured(there, &why);
        probe_unmeasured(back, &why);
        return 0;
    }
    rc = probe_look(run);       /* cancelled: it may have fewer trials than it must */
    if (rc < 0)
        return rc;
    zc_probe_set(there, run->trials_s, count);
    zc_probe_set(back, run->back_s, count);
    return 0;
}

/* ---- copying ---- */

/* Always from the same place, as staging memory is used again, into a buffer that is walked through, as a program's are. */
static void copy(const struct zc_buffer *to, const struct zc_buffer *from, size_t size_bytes, size_t *at)
{
    if (*at + size_bytes > to->length_bytes)
        *at = 0;
    memcpy((uint8_t *)to->address + *at, from->address, size_bytes);
    *at += size_bytes;
}

static int copy_row(struct probe_run *run, struct zc_probe_row *row, const struct zc_buffer *to, const struct zc_buffer *from)
{
    const size_t size_bytes = row->is.size_bytes;
    size_t at = 0, count;
    uint64_t start_ns = zc_now_ns();
    copy(to, from, size_bytes, &at);
    const unsigned repeats = probe_repeats(zc_now_ns() - start_ns);
    start_ns = zc_now_ns();
    for (count = 0; probe_more(run, count, start_ns); count++) {
        const uint64_t trial_ns = zc_now_ns();
        for (unsigned i = 0; i < repeats; i++)
            copy(to, from, size_bytes, &at);
        run->trials_s[count] = (double)(zc_now_ns() - trial_ns) / repeats / 1e9;
    }
    const int rc = probe_look(run);
    if (rc == 0)
        zc_probe_set(row, run->trials_s, count);
    return rc;
}

int probe_copies(struct probe_run *run, struct zc_probe_row *first, size_t count)
{
    const size_t largest = first[count - 1].is.size_bytes, room = largest > COPY_ROOM ? largest : COPY_ROOM;
    struct zc_buffer to = { 0 }, from = { 0 };
    struct zc_error why;
    int rc = zc_buffer_create(room, run->numa_node, &to, &why);
    if (rc == 0)
        rc = zc_buffer_create(largest, run->numa_node, &from, &why);
    for (size_t i = 0; rc < 0 && i < count; i++)
        probe_unmeasured(&first[i], &why);
    const bool have = rc == 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = copy_row(run, &first[i], &to, &from);
    zc_buffer_destroy(&from);
    zc_buffer_destroy(&to);
    return have ? rc : 0;
}
