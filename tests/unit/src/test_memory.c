/* Buffers, without a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory.h"

static void test_buffer_is_resident(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct zc_buffer buffer;
    struct zc_error err = {0};
    unsigned char resident[9];
    assert_int_equal(zc_buffer_create(8 * page + 1, -1, &buffer, &err), 0);
    assert_int_equal((uintptr_t)buffer.address % page, 0);
    assert_int_equal(buffer.length_bytes, 8 * page + 1);
    assert_int_equal(buffer.mapped_bytes, 9 * page);
    assert_int_equal(buffer.numa_node, -1);
    assert_int_equal(mincore(buffer.address, buffer.mapped_bytes, resident), 0);
    for (size_t i = 0; i < 9; i++)
        assert_true(resident[i] & 1);
    memset(buffer.address, 0xff, buffer.length_bytes);
    zc_buffer_destroy(&buffer);
    assert_null(buffer.address);
    zc_buffer_destroy(&buffer);     /* twice does no harm */
}

static void test_nothing_faults_later(void **state)
{
    (void)state;
    struct zc_buffer buffer;
    struct zc_error err = {0};
    struct rusage before, after;
    assert_int_equal(zc_buffer_create(4 << 20, -1, &buffer, &err), 0);
    getrusage(RUSAGE_THREAD, &before);
    memset(buffer.address, 1, buffer.length_bytes);
    getrusage(RUSAGE_THREAD, &after);
    assert_true(after.ru_minflt - before.ru_minflt < 16);
    zc_buffer_destroy(&buffer);
}

static void test_huge_bytes(void **state)
{
    (void)state;
    struct zc_buffer buffer;
    struct zc_error err = {0};
    assert_int_equal(zc_buffer_create(8 << 20, -1, &buffer, &err), 0);
    uint64_t huge = zc_buffer_huge_bytes(&buffer);
    assert_true(huge == ZC_UNMEASURED || (huge <= buffer.mapped_bytes && huge % 4096 == 0));
    zc_buffer_destroy(&buffer);
}

static void test_numa_node(void **state)
{
    (void)state;
    struct zc_buffer buffer;
    struct zc_error err = {0};
    assert_int_equal(zc_buffer_create(65536, 0, &buffer, &err), 0);     /* binding may be forbidden here */
    assert_true(buffer.numa_node == 0 || buffer.numa_node == -1);
    zc_buffer_destroy(&buffer);
    assert_int_equal(zc_buffer_create(65536, 4000, &buffer, &err), 0);  /* no machine has it */
    assert_int_equal(buffer.numa_node, -1);
    zc_buffer_destroy(&buffer);
}

static void test_errors_name_the_size(void **state)
{
    (void)state;
    struct zc_buffer buffer = {0};
    struct zc_error err = {0};
    assert_true(zc_buffer_create(0, -1, &buffer, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_INVALID);
    assert_true(zc_buffer_create((size_t)1 << 60, -1, &buffer, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_RESOURCE);
    assert_non_null(strstr(err.message, "1048576 TiB"));
    assert_null(buffer.address);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffer_is_resident), cmocka_unit_test(test_nothing_faults_later), cmocka_unit_test(test_huge_bytes),
        cmocka_unit_test(test_numa_node), cmocka_unit_test(test_errors_name_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
