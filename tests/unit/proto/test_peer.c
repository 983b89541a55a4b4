/* Peer messages on the wire: byte for byte little-endian, and back. */
#include "unit.h"

#include <string.h>

#include "peer.h"

static void test_request_bytes(void **state)
{
    static const unsigned char wire[24] = { 'Z', 'C', 'R', '1', 2, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 4, 0, 0, 0, 0, 0 };
    struct zc_peer_request request = { .magic = ZC_PEER_MAGIC, .version = 2, .session = UINT64_C(0x0102030405060708), .qp_index = 3,
                                       .qp_count = 4 };

    (void)state;
    zc_peer_request_swap(&request);
    assert_memory_equal(&request, wire, sizeof(wire));
    zc_peer_request_swap(&request);
    assert_int_equal(request.session, UINT64_C(0x0102030405060708));
}

static void test_message_bytes(void **state)
{
    struct zc_peer_message message = { .magic = ZC_PEER_MAGIC, .version = 2, .type = ZC_PEER_BYE, .session = 0x1122,
                                       .proof = { 0x33, [31] = 0x44 }, .status = ZC_PEER_TOO_MANY };
    const unsigned char *bytes = (const unsigned char *)&message;

    (void)state;
    zc_peer_message_swap(&message);
    assert_int_equal(bytes[4], 2);
    assert_int_equal(bytes[6], ZC_PEER_BYE);
    assert_int_equal(bytes[8], 0x22);
    assert_int_equal(bytes[16], 0x33);
    assert_int_equal(bytes[47], 0x44);
    assert_int_equal(bytes[48], ZC_PEER_TOO_MANY);
}

static void test_welcome_bytes(void **state)
{
    struct zc_peer_welcome welcome = { .magic = ZC_PEER_MAGIC, .version = 2, .type = ZC_PEER_WELCOME, .session = 0x1122,
                                       .region_address = 0x3344, .region_size = 0x5566, .pattern_seed = 0x7788, .alive_ms = 0x99aa,
                                       .active_mtu = 4096, .mac = { 0xbb }, .rkeys = { 0xccdd, [ZC_PEER_QPS_MAX - 1] = 0xeeff } };
    const unsigned char *bytes = (const unsigned char *)&welcome;

    (void)state;
    zc_peer_welcome_swap(&welcome);
    assert_int_equal(bytes[6], ZC_PEER_WELCOME);
    assert_int_equal(bytes[8], 0x22);
    assert_int_equal(bytes[16], 0x44);
    assert_int_equal(bytes[24], 0x66);
    assert_int_equal(bytes[32], 0x88);
    assert_int_equal(bytes[40], 0xaa);
    assert_int_equal(bytes[45], 0x10);
    assert_int_equal(bytes[48], 0xbb);
    assert_int_equal(bytes[80], 0xdd);
    assert_int_equal(bytes[332], 0xff);
    zc_peer_welcome_swap(&welcome);
    assert_int_equal(welcome.region_size, 0x5566);
}

static void test_answer_bytes(void **state)
{
    static const unsigned char wire[16] = { 'Z', 'C', 'R', '1', 2, 0, 3, 0, 64, 1 };
    struct zc_peer_answer answer = { .magic = ZC_PEER_MAGIC, .version = 2, .status = ZC_PEER_TOO_MANY, .limit = 320 };

    (void)state;
    zc_peer_answer_swap(&answer);
    assert_memory_equal(&answer, wire, sizeof(wire));
}

static void test_every_status_has_words(void **state)
{
    (void)state;
    for (unsigned status = 0; status <= ZC_PEER_OTHER_DEVICE; status++)
        assert_string_not_equal(zc_peer_status_text((uint16_t)status), zc_peer_status_text(999));
    assert_string_equal(zc_peer_status_text(999), zc_peer_status_text(998));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_bytes),
        cmocka_unit_test(test_message_bytes),
        cmocka_unit_test(test_welcome_bytes),
        cmocka_unit_test(test_answer_bytes),
        cmocka_unit_test(test_every_status_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
