/* A requester against a responder of the same process on a real device: reading, ending, refusing, cancelling, nothing left over.
 * Runs on the software device under ctest and, unchanged, on rxe in the lab. */
#include "rdma_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "peer.h"

static void idle_again(struct fixture_counts before)
{
    assert_true(fixture_wait_sessions(&fixture, 0, 3000));
    fixture_assert_counts(before);
}

static void test_reads_the_region(void **state)
{
    (void)state;
    enum { CHUNK = 128 << 10, QPS = 3 };
    struct fixture_counts before = fixture_count();
    struct reader reader;
    reader_open(&fixture, QPS, &reader);

    const struct zc_remote *remote = zc_connection_remote(reader.connection);
    assert_int_equal(remote->size_bytes, FIXTURE_REGION);
    assert_int_equal(remote->pattern_seed, FIXTURE_SEED);
    assert_int_equal(remote->port, fixture.port);
    assert_string_equal(remote->numeric_address, zc_device_info(fixture.device)->address);
    assert_int_equal(zc_connection_qp_count(reader.connection), QPS);
    assert_true(zc_connection_outstanding_reads(reader.connection) >= 1);
    assert_true(zc_connection_max_read_bytes(reader.connection) >= CHUNK);

    unsigned posted = 0, completed = 0, total = FIXTURE_REGION / CHUNK;
    while (completed < total) {
        while (posted < total && posted - completed < 8) {
            assert_int_equal(reader_post(&reader, posted % QPS, (uint64_t)posted * CHUNK, CHUNK, posted), 0);
            posted++;
        }
        struct ibv_wc wc = reader_wait(&reader);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_true(wc.wr_id < total);
        completed++;
    }
    size_t bad = 0;
    assert_true(zc_pattern_check(reader.buffer.address, FIXTURE_REGION, 0, FIXTURE_SEED, &bad));

    struct zc_session_info info;
    pthread_mutex_lock(&fixture.lock);
    assert_int_equal(zc_responder_sessions(fixture.responder, &info, 1), 1);
    pthread_mutex_unlock(&fixture.lock);
    assert_int_equal(info.qps, QPS);
    assert_true(info.welcomed);
    assert_int_equal(info.outstanding_reads, zc_connection_outstanding_reads(reader.connection));
    assert_int_equal(zc_connection_check(reader.connection, NULL), 0);
    reader_close(&reader);
    idle_again(before);
}

/* The device closes what its connections had a moment after their end. */
static bool descriptors_at_most(unsigned limit)
{
    for (int tries = 0; fixture_descriptors() > limit && tries < 300; tries++)
        poll(NULL, 0, 10);
    return fixture_descriptors() <= limit;
}

static void test_rounds_leave_nothing(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    uint64_t bye = fixture_stats(&fixture).ended_bye;
    enum { ROUNDS = 24 };
    unsigned descriptors = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct reader reader;
        reader_open(&fixture, 1 + i % 4, &reader);
        reader_close(&reader);
        if (i % 8 != 7)
            continue;
        idle_again(before);
        if (descriptors == 0)
            descriptors = fixture_descriptors();    /* a device may keep a few from its first use */
        else
            assert_true(descriptors_at_most(descriptors + 2));
    }
    assert_int_equal(fixture_stats(&fixture).ended_bye, bye + ROUNDS);
}

static void test_close_with_reads_in_flight(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    for (unsigned round = 0; round < 5; round++) {
        struct reader reader;
        reader_open(&fixture, 2, &reader);
        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(reader_post(&reader, i % 2, 0, 1 << 20, i), 0);
        reader_close(&reader);
    }
    idle_again(before);
}

static void test_responder_closes_a_session(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    struct zc_session_info info;
    struct zc_error err = {0};
    struct reader reader;
    reader_open(&fixture, 2, &reader);
    pthread_mutex_lock(&fixture.lock);
    assert_int_equal(zc_responder_sessions(fixture.responder, &info, 1), 1);
    assert_true(zc_responder_close_session(fixture.responder, info.id));
    assert_false(zc_responder_close_session(fixture.responder, info.id + 1000));
    pthread_mutex_unlock(&fixture.lock);

    struct pollfd fd = {.fd = zc_connection_fd(reader.connection), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 3000), 1);
    int rc = 0;
    for (unsigned i = 0; i < 1000 && rc == 0; i++, usleep(1000))
        rc = zc_connection_check(reader.connection, &err);
    assert_int_equal(rc, -ESHUTDOWN);
    assert_int_equal(err.kind, ZC_ERR_PEER);
    assert_non_null(strstr(err.message, "it ended the session"));
    reader_close(&reader);
    idle_again(before);
}

static void test_responder_goes_away(void **state)
{
    (void)state;
    struct zc_error err = {0};
    struct reader reader;
    reader_open(&fixture, 1, &reader);
    fixture_responder_stop(&fixture);
    int rc = 0;
    for (unsigned i = 0; i < 1000 && rc == 0; i++, usleep(1000))
        rc = zc_connection_check(reader.connection, &err);
    assert_int_equal(rc, -ESHUTDOWN);
    assert_non_null(strstr(err.message, "shutting down"));
    reader_close(&reader);
    fixture_responder_start(&fixture, 16, 2000);
}

static void assert_refused(const char *host, uint16_t port, uint32_t timeout_ms, enum zc_error_kind kind, const char *words)
{
    struct fixture_counts before = fixture_count();
    struct zc_error err = {0};
    struct reader reader;
    assert_true(reader_connect(&fixture, host, port, 1, -1, timeout_ms, &reader, &err) < 0);
    if (err.kind != kind || !strstr(err.message, words))
        fail_msg("expected '%s', not: %s", words, err.message);
    fixture_assert_counts(before);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *address = zc_device_info(fixture.device)->address;
    assert_refused(address, 9, 5000, ZC_ERR_PEER, "nobody listens on port 9");
    assert_refused("no-such-host.invalid", fixture.port, 5000, ZC_ERR_PEER, "does not resolve");
}

static void test_too_many_sessions(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    struct reader readers[2];
    fixture_responder_stop(&fixture);
    fixture_responder_start(&fixture, 2, 2000);
    reader_open(&fixture, 1, &readers[0]);
    reader_open(&fixture, 1, &readers[1]);
    assert_refused(zc_device_info(fixture.device)->address, fixture.port, 5000, ZC_ERR_PEER, "as many sessions as it may (max_sessions = 2)");
    reader_close(&readers[0]);
    reader_close(&readers[1]);
    fixture_responder_stop(&fixture);
    fixture_responder_start(&fixture, 16, 2000);
    fixture_assert_counts(before);
}

static void test_cancel(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    struct zc_error err = {0};
    struct reader reader;
    int cancel_fd = eventfd(1, EFD_CLOEXEC);
    int rc = reader_connect(&fixture, zc_device_info(fixture.device)->address, fixture.port, 1, cancel_fd, 5000, &reader, &err);
    assert_int_equal(rc, -ECANCELED);
    assert_int_equal(err.kind, ZC_ERR_CANCELLED);
    close(cancel_fd);
    idle_again(before);
}

/* A READ outside of the region breaks its own session and no other. */
static void test_read_outside_the_region(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    struct reader bad, good;
    reader_open(&fixture, 1, &bad);
    reader_open(&fixture, 1, &good);

    const struct zc_remote *remote = zc_connection_remote(bad.connection);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)bad.buffer.address, .length = 4096, .lkey = bad.mr->lkey};
    struct ibv_send_wr wr;
    zc_wr_read(&wr, 1, &sge, 1, remote->address + remote->size_bytes - 4095, zc_connection_rkey(bad.connection, 0), IBV_SEND_SIGNALED);
    assert_int_equal(zc_post_send(zc_connection_qp(bad.connection, 0), &wr, NULL, NULL), 0);
    assert_int_equal(reader_wait(&bad).status, IBV_WC_REM_ACCESS_ERR);
    reader_close(&bad);

    assert_int_equal(reader_post(&good, 0, 0, 65536, 2), 0);
    assert_int_equal(reader_wait(&good).status, IBV_WC_SUCCESS);
    reader_close(&good);
    idle_again(before);
}

/* A process that is killed in the middle of READs: the responder's side is gone at once. This program starts itself again. */
static void child_reads_for_ever(const char *port)
{
    struct fixture f = {0};
    struct reader reader;
    struct zc_error err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);   /* a test that failed must not leave it reading */
    if (zc_device_open(NULL, &f.device, &err))
        _exit(3);
    f.port = (uint16_t)atoi(port);
    reader_open(&f, 2, &reader);
    printf("connected\n");
    fflush(stdout);
    for (unsigned i = 0; i < 8; i++)
        reader_post(&reader, i % 2, 0, 1 << 18, i);
    for (uint64_t i = 0;; i++) {
        reader_wait(&reader);
        reader_post(&reader, i % 2, 0, 1 << 18, i);
    }
}

static void test_peer_is_killed(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    for (unsigned round = 0; round < 3; round++) {
        char command[512], line[64] = "", self[256] = "";
        assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
        snprintf(command, sizeof(command), "echo $$; exec '%s' --read-for-ever %u", self, fixture.port);
        FILE *child = popen(command, "r");
        assert_non_null(child);
        assert_non_null(fgets(line, sizeof(line), child));
        pid_t pid = (pid_t)atoi(line);
        assert_true(pid > 1);
        assert_non_null(fgets(line, sizeof(line), child));
        assert_string_equal(line, "connected\n");
        usleep(50000);
        assert_int_equal(fixture_stats(&fixture).sessions_open, 1);
        kill(pid, SIGKILL);
        pclose(child);
        idle_again(before);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--read-for-ever") == 0)
        child_reads_for_ever(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_the_region),
        cmocka_unit_test(test_rounds_leave_nothing),
        cmocka_unit_test(test_close_with_reads_in_flight),
        cmocka_unit_test(test_responder_closes_a_session),
        cmocka_unit_test(test_responder_goes_away),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_many_sessions),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_read_outside_the_region),
        cmocka_unit_test(test_peer_is_killed),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
