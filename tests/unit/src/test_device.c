/* Devices where there may be none: no software device is in front of the libraries here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "counters.h"
#include "device.h"

static void test_list_agrees_with_open(void **state)
{
    (void)state;
    struct zc_device_info infos[4];
    struct zc_device *device = NULL;
    struct zc_error err = {0};
    size_t count = 99;
    assert_int_equal(zc_device_list(infos, 4, &count, &err), 0);
    int rc = zc_device_open(NULL, &device, &err);
    if (count == 0) {
        assert_true(rc < 0);
        assert_int_equal(err.kind, ZC_ERR_NOT_FOUND);
        assert_string_equal(err.message, "there is no RDMA device on this host");
        assert_null(device);
    }
    zc_device_close(device);
    assert_int_equal(zc_counters.pds, 0);
}

static void test_no_software_device(void **state)
{
    (void)state;
    assert_true(zc_device_cpu_ns() == ZC_UNMEASURED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list_agrees_with_open), cmocka_unit_test(test_no_software_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
