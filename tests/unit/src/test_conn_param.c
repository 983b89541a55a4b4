/* Connection parameters: the caller's private data is pointed at, and its limit is checked before anything is written. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conn_param.h"

static void test_request(void **state)
{
    (void)state;
    static const uint8_t bytes[ZC_REQUEST_PRIVATE_MAX + 1];
    struct rdma_conn_param param, before;
    memset(&param, 0xa5, sizeof(param));
    before = param;
    assert_int_equal(zc_conn_param_request(&param, 7, 9, bytes, sizeof(bytes)), -EMSGSIZE);
    assert_memory_equal(&param, &before, sizeof(param));
    assert_int_equal(zc_conn_param_request(&param, 7, 9, bytes, ZC_REQUEST_PRIVATE_MAX), 0);
    assert_ptr_equal(param.private_data, bytes);
    assert_int_equal(param.private_data_len, ZC_REQUEST_PRIVATE_MAX);
    assert_int_equal(param.initiator_depth, 7);
    assert_int_equal(param.responder_resources, 9);
    assert_int_equal(param.retry_count, ZC_CONN_RETRIES);
    assert_int_equal(param.rnr_retry_count, ZC_CONN_RNR_RETRIES);
    assert_int_equal(param.srq, 0);
    assert_int_equal(param.flow_control, 0);
    assert_int_equal(param.qp_num, 0);
}

static void test_accept(void **state)
{
    (void)state;
    static const uint8_t bytes[ZC_ACCEPT_PRIVATE_MAX + 1];
    struct rdma_conn_param param;
    assert_int_equal(zc_conn_param_accept(&param, 1, 1, bytes, sizeof(bytes)), -EMSGSIZE);
    assert_int_equal(zc_conn_param_accept(&param, 1, 1, bytes, ZC_ACCEPT_PRIVATE_MAX), 0);
    assert_ptr_equal(param.private_data, bytes);
    assert_int_equal(param.private_data_len, ZC_ACCEPT_PRIVATE_MAX);
    assert_int_equal(zc_conn_param_accept(&param, 1, 1, NULL, 0), 0);
    assert_null(param.private_data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_request), cmocka_unit_test(test_accept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
