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

static void test_transparent_huge_pages(void **state)
{
    (void)state;
    struct zc_buffer buffer;
    struct zc_error err = {0};
    if (zc_buffer_create_pages(3 << 20, ZC_PAGES_THP, -1, &buffer, &err) < 0) {     /* switched off on this machine */
        assert_string_equal(err.field, "pages");
        assert_non_null(strstr(err.message, "/sys/kernel/mm/transparent_hugepage/enabled"));
        return;
    }
    assert_int_equal((uintptr_t)buffer.address % (2 << 20), 0);
    assert_int_equal(buffer.mapped_bytes, 4 << 20);
    assert_int_equal(buffer.page_bytes, 2 << 20);
    memset(buffer.address, 1, buffer.mapped_bytes);
    const uint64_t huge = zc_buffer_huge_bytes(&buffer);
    print_message("    %llu KiB of 4096 on huge pages\n", (unsigned long long)huge / 1024);
    assert_true(huge == ZC_UNMEASURED || huge <= buffer.mapped_bytes);
    zc_buffer_destroy(&buffer);
}

/* Most machines have reserved none, and then the error says how; where there are some, they are what comes. */
static void test_reserved_huge_pages(void **state)
{
    (void)state;
    static const struct { enum zc_pages pages; size_t bytes; } kinds[] = {{ZC_PAGES_2M, 2 << 20}, {ZC_PAGES_1G, 1 << 30}};
    for (size_t i = 0; i < 2; i++) {
        struct zc_buffer buffer = {0};
        struct zc_error err = {0};
        assert_int_equal(zc_pages_bytes(kinds[i].pages), kinds[i].bytes);
        if (zc_buffer_create_pages(5000, kinds[i].pages, -1, &buffer, &err) == 0) {
            assert_int_equal(buffer.mapped_bytes, kinds[i].bytes);
            assert_int_equal(zc_buffer_huge_bytes(&buffer), kinds[i].bytes);
        } else {
            assert_null(buffer.address);
            assert_int_equal(err.kind, ZC_ERR_RESOURCE);
            assert_string_equal(err.field, "pages");
            assert_true(strstr(err.message, "/proc/sys/vm/nr_hugepages") || strstr(err.message, "has no pages"));
        }
        zc_buffer_destroy(&buffer);
    }
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
        cmocka_unit_test(test_transparent_huge_pages), cmocka_unit_test(test_reserved_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
