/* The facts about the host that every machine can tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "environment.h"
#include "version.h"

static void test_facts(void **state)
{
    (void)state;
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    setenv("RDMAV_FORK_SAFE", "1", 1);
    unsetenv("RDMAV_HUGEPAGES_SAFE");
    struct zc_environment environment;
    memset(&environment, 0xff, sizeof environment);
    strcpy(environment.device.name, "stays");
    zc_environment_read(&environment);
    assert_string_equal(environment.device.name, "stays");
    assert_string_equal(environment.host, name.nodename);
    assert_non_null(strstr(environment.kernel, name.release));
    assert_true(environment.cpu[0] != '\0');
    assert_string_equal(environment.zcrdma_version, ZC_VERSION);
    assert_int_equal(environment.cpus_online, sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(environment.numa_nodes >= 1);
    assert_int_equal(environment.page_size_bytes, sysconf(_SC_PAGESIZE));
    assert_int_equal(environment.memory_bytes / 4096, sysconf(_SC_PHYS_PAGES));
    assert_true(environment.memory_free_bytes > 0 && environment.memory_free_bytes < environment.memory_bytes);
    assert_true(environment.llc_bytes == ZC_UNMEASURED || environment.llc_bytes >= 1 << 16);
    assert_string_equal(environment.fork_safe, "1");
    assert_string_equal(environment.hugepages_safe, "");
}

static void test_memlock_limit(void **state)
{
    (void)state;
    struct rlimit limit;
    struct zc_environment environment = {.cpus_online = 0};
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    limit.rlim_cur = 65536;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        skip();
    zc_environment_read(&environment);
    assert_int_equal(environment.memlock_limit_bytes, 65536);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_memlock_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
