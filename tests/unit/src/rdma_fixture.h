/* For tests on a real device, the software device under ctest or rxe in the lab: a device, a region and a responder with a thread of
 * its own, and helpers to read from it. */
#ifndef RDMA_FIXTURE_H
#define RDMA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "zc.h"

enum { FIXTURE_REGION = 4 << 20, FIXTURE_SEED = 20240601, FIXTURE_TIMEOUT_MS = 10000 };

struct fixture {
    struct zc_device *device;
    struct zc_region *region;
    struct zc_responder *responder;
    uint16_t port;
    pthread_t thread;
    int stop_fd;
    pthread_mutex_t lock;       /* the responder has one owner at a time */
    const struct zc_key *key;   /* what readers know */
    atomic_uint warnings;       /* that the responder logged */
};

static inline void fixture_log(void *arg, enum zc_log_level level, const char *message)
{
    struct fixture *f = arg;
    if (level == ZC_LOG_WARNING)
        f->warnings++;
    if (getenv("ZC_TEST_VERBOSE"))
        fprintf(stderr, "  responder[%d]: %s\n", level, message);
}

static inline void *fixture_thread(void *arg)
{
    struct fixture *f = arg;
    struct pollfd fds[2] = {{.fd = zc_responder_fd(f->responder), .events = POLLIN}, {.fd = f->stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
        if (fds[1].revents)
            break;
        pthread_mutex_lock(&f->lock);
        zc_responder_process(f->responder);
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

/* What is 0 in `params` gets a value that disturbs no test. */
static inline void fixture_responder_start_with(struct fixture *f, struct zc_responder_params params)
{
    struct zc_error err = {0};
    params.device = f->device;
    params.region = f->region;
    params.max_sessions = params.max_sessions ? params.max_sessions : 16;
    params.max_qps_per_session = 8;
    params.hello_timeout_ms = params.hello_timeout_ms ? params.hello_timeout_ms : 2000;
    params.log = fixture_log;
    params.log_arg = f;
    int rc = zc_responder_create(&params, &f->responder, &err);
    if (rc)
        fail_msg("responder: %s", err.message);
    f->port = zc_responder_port(f->responder);
    assert_int_not_equal(f->port, 0);
    f->stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&f->lock, NULL);
    pthread_create(&f->thread, NULL, fixture_thread, f);
}

static inline void fixture_responder_start(struct fixture *f, uint32_t max_sessions, uint32_t hello_timeout_ms)
{
    fixture_responder_start_with(f, (struct zc_responder_params){.max_sessions = max_sessions, .hello_timeout_ms = hello_timeout_ms});
}

static inline void fixture_responder_stop(struct fixture *f)
{
    eventfd_write(f->stop_fd, 1);
    pthread_join(f->thread, NULL);
    close(f->stop_fd);
    zc_responder_destroy(f->responder);
    f->responder = NULL;
}

static inline void fixture_start(struct fixture *f)
{
    struct zc_error err = {0};
    memset(f, 0, sizeof(*f));
    if (zc_device_open(NULL, &f->device, &err))
        fail_msg("device: %s", err.message);
    if (zc_region_create(f->device, FIXTURE_REGION, FIXTURE_SEED, &f->region, &err))
        fail_msg("region: %s", err.message);
    fixture_responder_start(f, 16, 2000);
}

static inline void fixture_stop(struct fixture *f)
{
    if (f->responder)
        fixture_responder_stop(f);
    zc_region_destroy(f->region);
    zc_device_close(f->device);
    memset(f, 0, sizeof(*f));
}

static inline struct zc_responder_stats fixture_stats(struct fixture *f)
{
    struct zc_responder_stats stats;
    pthread_mutex_lock(&f->lock);
    zc_responder_stats(f->responder, &stats);
    pthread_mutex_unlock(&f->lock);
    return stats;
}

/* Wait until that many sessions are open; the peer learns of an end a little later. */
static inline bool fixture_wait_sessions(struct fixture *f, uint64_t open, unsigned timeout_ms)
{
    for (unsigned waited = 0; waited <= timeout_ms; waited++) {
        if (fixture_stats(f).sessions_open == open)
            return true;
        usleep(1000);
    }
    return false;
}

/* What is alive, to compare before and after. */
struct fixture_counts {
    uint64_t pds, mrs, mr_bytes, mws, cqs, channels, qps, srqs, cm_ids;
};

static inline struct fixture_counts fixture_count(void)
{
    return (struct fixture_counts){zc_counters.pds, zc_counters.mrs, zc_counters.mr_bytes, zc_counters.mws, zc_counters.cqs,
                                   zc_counters.channels, zc_counters.qps, zc_counters.srqs, zc_counters.cm_ids};
}

/* The other side, a thread of this process too, may need a moment to follow. */
static inline void fixture_assert_counts(struct fixture_counts before)
{
    struct fixture_counts now = fixture_count();
    for (unsigned waited = 0; waited < 3000 && memcmp(&now, &before, sizeof(now)) != 0; waited++) {
        usleep(1000);
        now = fixture_count();
    }
    assert_int_equal(now.pds, before.pds);
    assert_int_equal(now.mrs, before.mrs);
    assert_int_equal(now.mr_bytes, before.mr_bytes);
    assert_int_equal(now.mws, before.mws);
    assert_int_equal(now.cqs, before.cqs);
    assert_int_equal(now.channels, before.channels);
    assert_int_equal(now.qps, before.qps);
    assert_int_equal(now.srqs, before.srqs);
    assert_int_equal(now.cm_ids, before.cm_ids);
}

/* Open descriptors of this process. */
static inline unsigned fixture_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* A requester: completion, connection and a registered buffer. */
struct reader {
    struct zc_completion *completion;
    struct zc_connection *connection;
    struct zc_buffer buffer;
    struct ibv_mr *mr;
};

static inline int reader_connect(struct fixture *f, const char *host, uint16_t port, uint32_t qps, int cancel_fd, uint32_t timeout_ms,
                                 struct reader *reader, struct zc_error *err)
{
    memset(reader, 0, sizeof(*reader));
    if (zc_completion_create(f->device, 256, &reader->completion, err))
        fail_msg("completion: %s", err->message);
    struct zc_connection_params params = {.host = host, .port = port, .qps = qps, .send_slots = 16, .timeout_ms = timeout_ms,
                                          .cancel_fd = cancel_fd, .key = f->key, .completion = reader->completion};
    int rc = zc_connection_open(f->device, &params, &reader->connection, err);
    if (rc)
        zc_completion_destroy(reader->completion);
    return rc;
}

static inline void reader_open(struct fixture *f, uint32_t qps, struct reader *reader)
{
    struct zc_error err = {0};
    if (reader_connect(f, zc_device_info(f->device)->address, f->port, qps, -1, FIXTURE_TIMEOUT_MS, reader, &err))
        fail_msg("connection: %s", err.message);
    if (zc_buffer_create(FIXTURE_REGION, -1, &reader->buffer, &err) ||
        zc_mr_register(f->device, reader->buffer.address, FIXTURE_REGION, IBV_ACCESS_LOCAL_WRITE, "a test's memory", &reader->mr, &err))
        fail_msg("buffer: %s", err.message);
}

static inline void reader_close(struct reader *reader)
{
    zc_connection_close(reader->connection);
    zc_mr_deregister(reader->mr);
    zc_buffer_destroy(&reader->buffer);
    zc_completion_destroy(reader->completion);
}

static inline int reader_post(struct reader *reader, uint32_t qp, uint64_t offset, uint32_t length, uint64_t wr_id)
{
    const struct zc_remote *remote = zc_connection_remote(reader->connection);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)reader->buffer.address + offset, .length = length, .lkey = reader->mr->lkey};
    struct ibv_send_wr wr;
    zc_wr_read(&wr, wr_id, &sge, 1, remote->address + offset, zc_connection_rkey(reader->connection, qp), IBV_SEND_SIGNALED);
    return zc_post_send(zc_connection_qp(reader->connection, qp), &wr, NULL, NULL);
}

/* One completion, within five seconds. */
static inline struct ibv_wc reader_wait(struct reader *reader)
{
    struct ibv_wc wc = {0};
    uint64_t deadline_ns = zc_now_ns() + UINT64_C(5000000000);
    for (;;) {
        assert_int_equal(zc_completion_rearm(reader->completion), 0);
        int count = zc_completion_poll(reader->completion, 1, &wc);
        assert_true(count >= 0);
        if (count == 1)
            return wc;
        if (zc_completion_wait(reader->completion, -1, deadline_ns) <= 0)
            fail_msg("no completion came within 5 s");
    }
}

/* What most programs have, for a whole group of tests. */
static struct fixture fixture;

static inline int fixture_setup(void **state)
{
    (void)state;
    fixture_start(&fixture);
    return 0;
}

static inline int fixture_teardown(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    fixture_assert_counts((struct fixture_counts){0});
    return 0;
}

#endif
