/* Posting batches for real: the software device under ctest, rxe in the lab. The refusals of a pretended provider are in test_post.c. */
#include "rdma_fixture.h"

enum { BATCH = 1000, READ_BYTES = 512 };

static struct ibv_send_wr wrs[BATCH];
static struct ibv_sge sges[BATCH];

static void make_batch(const struct reader *reader, size_t count)
{
    const struct zc_remote *remote = zc_connection_remote(reader->connection);
    for (size_t i = 0; i < count; i++) {
        sges[i] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)reader->buffer.address + i * READ_BYTES, .length = READ_BYTES,
                                   .lkey = reader->mr->lkey};
        zc_wr_read(&wrs[i], i, &sges[i], 1, remote->address + i * READ_BYTES, zc_connection_rkey(reader->connection, 0), IBV_SEND_SIGNALED);
    }
    zc_wr_link_send(wrs, count);
}

/* READs of one QP complete in the order of posting. */
static void reap(struct reader *reader, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++) {
        struct ibv_wc wc = reader_wait(reader);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i);
    }
}

static void test_batch(void **state)
{
    (void)state;
    struct reader reader;
    size_t accepted = 0, bad = 0;
    reader_open(&fixture, 1, &reader);
    make_batch(&reader, 16);
    assert_int_equal(zc_post_send(zc_connection_qp(reader.connection, 0), wrs, &accepted, NULL), 0);
    assert_int_equal(accepted, 16);
    reap(&reader, 0, 16);
    assert_true(zc_pattern_check(reader.buffer.address, 16 * READ_BYTES, 0, FIXTURE_SEED, &bad));
    reader_close(&reader);
}

/* More than the queue takes: a queue may be larger than asked for, but it ends. What it refused goes in later as it stands. */
static void test_more_than_the_queue_takes(void **state)
{
    (void)state;
    struct reader reader;
    struct ibv_send_wr *rest = wrs;
    size_t accepted = 0, done = 0, bad = 0;
    reader_open(&fixture, 1, &reader);
    make_batch(&reader, BATCH);
    int rc = zc_post_send(zc_connection_qp(reader.connection, 0), wrs, &accepted, &rest);
    assert_int_equal(rc, -ENOMEM);
    assert_true(accepted >= 16 && accepted < 256);
    while (rc == -ENOMEM) {
        assert_ptr_equal(rest, &wrs[done + accepted]);
        reap(&reader, done, accepted);
        done += accepted;
        rc = zc_post_send(zc_connection_qp(reader.connection, 0), rest, &accepted, &rest);
    }
    assert_int_equal(rc, 0);
    reap(&reader, done, accepted);
    assert_int_equal(done + accepted, BATCH);
    assert_true(zc_pattern_check(reader.buffer.address, BATCH * READ_BYTES, 0, FIXTURE_SEED, &bad));
    reader_close(&reader);
}

/* A local key that is none: the completion says so, and what was posted behind it is flushed. */
static void test_failing_batch(void **state)
{
    (void)state;
    struct reader reader;
    size_t accepted = 0;
    reader_open(&fixture, 1, &reader);
    make_batch(&reader, 4);
    sges[1].lkey ^= 0x5a5a5a;
    assert_int_equal(zc_post_send(zc_connection_qp(reader.connection, 0), wrs, &accepted, NULL), 0);
    assert_int_equal(reader_wait(&reader).status, IBV_WC_SUCCESS);
    struct ibv_wc wc = reader_wait(&reader);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
    for (int i = 0; i < 2; i++)
        assert_int_equal(reader_wait(&reader).status, IBV_WC_WR_FLUSH_ERR);
    reader_close(&reader);
    assert_true(fixture_wait_sessions(&fixture, 0, 5000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch), cmocka_unit_test(test_more_than_the_queue_takes), cmocka_unit_test(test_failing_batch)};
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
