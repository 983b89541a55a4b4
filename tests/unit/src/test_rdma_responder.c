/* The responder against peers that do not keep to the protocol: each ends its own session at most, and nothing of it is left.
 * Runs on the software device under ctest and, unchanged, on rxe in the lab. */
#include "raw_peer.h"

/* A good session beside the bad one: opened before it, reading after it. */
static struct reader witness;
static struct fixture_counts counts;

static int open_witness(void **state)
{
    (void)state;
    reader_open(&fixture, 1, &witness);
    counts = fixture_count();
    return 0;
}

static int close_witness(void **state)
{
    (void)state;
    assert_true(fixture_wait_sessions(&fixture, 1, 5000));
    fixture_assert_counts(counts);
    assert_int_equal(reader_post(&witness, 0, 0, 65536, 1), 0);
    assert_int_equal(reader_wait(&witness).status, IBV_WC_SUCCESS);
    reader_close(&witness);
    assert_true(fixture_wait_sessions(&fixture, 0, 5000));
    return 0;
}

static void assert_rejected(const void *private_data, uint8_t length, uint16_t status)
{
    struct raw_peer peer;
    struct zc_peer_answer answer;
    uint64_t refused = fixture_stats(&fixture).sessions_refused;
    raw_request(&fixture, &peer, private_data, length);
    raw_expect(&peer, RDMA_CM_EVENT_REJECTED, 5000);
    assert_int_equal(peer.event.status, 28);
    assert_true(peer.event.private_length >= sizeof(answer));
    memcpy(&answer, peer.event.private_data, sizeof(answer));
    zc_peer_answer_swap(&answer);
    assert_int_equal(answer.magic, ZC_PEER_MAGIC);
    assert_int_equal(answer.version, ZC_PEER_VERSION);
    assert_int_equal(answer.status, status);
    assert_int_equal(fixture_stats(&fixture).sessions_refused, refused + 1);
    raw_close(&peer);
}

static void test_requests_that_are_rejected(void **state)
{
    (void)state;
    struct zc_peer_request request = raw_hello_request(77, 0, 1);
    assert_rejected(NULL, 0, ZC_PEER_BAD_REQUEST);
    assert_rejected("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 26, ZC_PEER_BAD_REQUEST);
    request.version++;
    assert_rejected(&request, sizeof(request), ZC_PEER_BAD_VERSION);
    request = raw_hello_request(77, 0, 0);
    assert_rejected(&request, sizeof(request), ZC_PEER_BAD_REQUEST);
    request = raw_hello_request(77, 0, 9);
    assert_rejected(&request, sizeof(request), ZC_PEER_TOO_MANY_QPS);
    request = raw_hello_request(77, 3, 3);
    assert_rejected(&request, sizeof(request), ZC_PEER_BAD_REQUEST);
    request = raw_hello_request(77, 1, 2);      /* a second QP without a first */
    assert_rejected(&request, sizeof(request), ZC_PEER_BAD_REQUEST);
}

static void test_no_hello(void **state)
{
    (void)state;
    struct raw_peer peer;
    uint64_t timeouts = fixture_stats(&fixture).ended_timeout, started_ns = zc_now_ns();
    raw_connect(&fixture, &peer, 1, 0, 1);
    raw_expect_end(&peer);
    assert_int_equal(fixture_stats(&fixture).ended_timeout, timeouts + 1);
    assert_true(zc_now_ns() - started_ns > UINT64_C(1500000000));
}

/* The same QP of the same session twice, and a QP count that changes: the second request is refused, the first lives on. */
static void test_same_qp_twice(void **state)
{
    (void)state;
    struct raw_peer peer;
    raw_connect(&fixture, &peer, 2, 0, 2);
    struct zc_peer_request request = raw_hello_request(2, 0, 2);
    assert_rejected(&request, sizeof(request), ZC_PEER_BAD_REQUEST);
    request = raw_hello_request(2, 1, 3);
    assert_rejected(&request, sizeof(request), ZC_PEER_BAD_REQUEST);
    assert_int_equal(fixture_stats(&fixture).sessions_open, 2);
    raw_close(&peer);
}

static void assert_message_ends_session(const void *bytes, uint32_t length)
{
    struct raw_peer peer;
    uint64_t errors = fixture_stats(&fixture).ended_error;
    raw_connect(&fixture, &peer, 3, 0, 1);
    assert_int_equal(raw_send(&peer, bytes, length), 0);
    raw_expect_end(&peer);
    assert_int_equal(fixture_stats(&fixture).ended_error, errors + 1);
}

static void test_messages_that_end_the_session(void **state)
{
    (void)state;
    struct zc_peer_message message = raw_message(3, ZC_PEER_HELLO);
    uint8_t long_message[256] = {0};
    assert_message_ends_session(&message, sizeof(message) - 1);
    memcpy(long_message, &message, sizeof(message));
    assert_message_ends_session(long_message, sizeof(long_message));
    assert_message_ends_session(&message, 0);
    message = raw_message(4, ZC_PEER_HELLO);
    assert_message_ends_session(&message, sizeof(message));
    message = raw_message(3, ZC_PEER_WELCOME);
    assert_message_ends_session(&message, sizeof(message));
    message = raw_message(3, 4711);
    assert_message_ends_session(&message, sizeof(message));
    message = raw_message(3, ZC_PEER_HELLO);
    message.version++;
    assert_message_ends_session(&message, sizeof(message));
    message = raw_message(3, ZC_PEER_HELLO);
    message.magic ^= 1;
    assert_message_ends_session(&message, sizeof(message));
}

static void test_hello_twice(void **state)
{
    (void)state;
    struct raw_peer peer;
    struct zc_peer_message message = raw_message(5, ZC_PEER_HELLO);
    struct zc_peer_welcome welcome;
    uint64_t errors = fixture_stats(&fixture).ended_error;
    raw_connect(&fixture, &peer, 5, 0, 1);
    assert_int_equal(raw_send(&peer, &message, sizeof(message)), 0);
    struct ibv_wc wc = {0};
    for (int i = 0; i < 2; i++) {   /* the send and the WELCOME, in either order */
        assert_true(raw_completion(&peer, &wc, 3000));
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    memcpy(&welcome, (uint8_t *)peer.buffer.address + RAW_HALF, sizeof(welcome));
    zc_peer_welcome_swap(&welcome);
    assert_int_equal(welcome.type, ZC_PEER_WELCOME);
    assert_int_equal(welcome.region_size, FIXTURE_REGION);
    assert_int_equal(raw_send(&peer, &message, sizeof(message)), 0);
    raw_expect_end(&peer);
    assert_int_equal(fixture_stats(&fixture).ended_error, errors + 1);
}

static void test_hello_before_all_qps(void **state)
{
    (void)state;
    struct raw_peer peer;
    struct zc_peer_message message = raw_message(6, ZC_PEER_HELLO);
    raw_connect(&fixture, &peer, 6, 0, 2);
    assert_int_equal(raw_send(&peer, &message, sizeof(message)), 0);
    raw_expect_end(&peer);
}

static void test_message_on_another_qp(void **state)
{
    (void)state;
    struct raw_peer control, other;
    struct zc_peer_message message = raw_message(7, ZC_PEER_HELLO);
    raw_connect(&fixture, &control, 7, 0, 2);
    raw_connect(&fixture, &other, 7, 1, 2);
    assert_int_equal(raw_send(&other, &message, sizeof(message)), 0);
    raw_expect_end(&other);
    raw_expect_end(&control);      /* a session ends as a whole */
}

/* Nothing but reading is granted: WRITE and atomics at the region fail and end the writer's session. */
static void test_write_at_the_region(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    struct reader writer;
    reader_open(&fixture, 1, &writer);
    const struct zc_remote *remote = zc_connection_remote(writer.connection);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)writer.buffer.address, .length = 8, .lkey = writer.mr->lkey};
    struct ibv_send_wr wr;
    zc_wr_read(&wr, 1, &sge, 1, remote->address, zc_connection_rkey(writer.connection, 0), IBV_SEND_SIGNALED);
    wr.opcode = IBV_WR_RDMA_WRITE;
    assert_int_equal(zc_post_send(zc_connection_qp(writer.connection, 0), &wr, NULL, NULL), 0);
    assert_int_equal(reader_wait(&writer).status, IBV_WC_REM_ACCESS_ERR);
    reader_close(&writer);
    assert_true(fixture_wait_sessions(&fixture, 1, 5000));
    fixture_assert_counts(before);
}

/* A flood of messages must not take the receives that the others need for longer than it lasts. */
static void test_flood(void **state)
{
    (void)state;
    struct raw_peer peer;
    struct zc_peer_message message = raw_message(8, ZC_PEER_HELLO);
    raw_connect(&fixture, &peer, 8, 0, 1);
    for (int i = 0; i < 8; i++)
        raw_send(&peer, &message, sizeof(message));
    raw_expect_end(&peer);
    struct reader reader;
    reader_open(&fixture, 1, &reader);
    reader_close(&reader);
}

static void test_listen_errors(void **state)
{
    (void)state;
    struct zc_error err = {0};
    struct zc_responder *other = NULL;
    struct zc_responder_params params = {.device = fixture.device, .region = fixture.region, .max_sessions = 1,
                                         .max_qps_per_session = 1, .hello_timeout_ms = 1000};
    params.listen_address = "203.0.113.77";
    assert_true(zc_responder_create(&params, &other, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_INVALID);
    assert_string_equal(err.field, "listen");
    params.listen_address = "localhost";
    assert_true(zc_responder_create(&params, &other, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_INVALID);
    params.listen_address = NULL;
    params.port = fixture.port;
    assert_true(zc_responder_create(&params, &other, &err) < 0);
    if (err.kind != ZC_ERR_BUSY)
        fail_msg("expected the port to be in use: %s", err.message);
    assert_null(other);
}

#define beside_a_witness(test) cmocka_unit_test_setup_teardown(test, open_witness, close_witness)

int main(void)
{
    const struct CMUnitTest tests[] = {
        beside_a_witness(test_requests_that_are_rejected),
        beside_a_witness(test_no_hello),
        beside_a_witness(test_same_qp_twice),
        beside_a_witness(test_messages_that_end_the_session),
        beside_a_witness(test_hello_twice),
        beside_a_witness(test_hello_before_all_qps),
        beside_a_witness(test_message_on_another_qp),
        beside_a_witness(test_write_at_the_region),
        beside_a_witness(test_flood),
        cmocka_unit_test(test_listen_errors),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
