/* Placement: what the rule comes to for a device, and that threads go where they belong and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "memory.h"
#include "placement.h"

static struct zc_device_info device(int numa_node)
{
    struct zc_device_info info = {.name = "mlx5_0", .numa_node = numa_node};
    return info;
}

static struct zc_placement *make(const char *numa, int device_node)
{
    struct zc_placement *placement = NULL;
    struct zc_error err = {0};
    const struct zc_device_info info = device(device_node);
    if (zc_placement_create(numa, &info, &placement, &err) < 0)
        fail_msg("%s", err.message);
    return placement;
}

static void test_none(void **state)
{
    (void)state;
    char text[160];
    cpu_set_t before, after;
    struct zc_placement *placement = make("none", 0);
    assert_int_equal(zc_placement_node(placement), -1);
    sched_getaffinity(0, sizeof before, &before);
    assert_int_equal(zc_placement_apply(placement), 0);
    sched_getaffinity(0, sizeof after, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_string_equal(zc_placement_text(placement, false, false, text, sizeof text), "nothing bound: as asked");
    zc_placement_destroy(placement);
    zc_placement_destroy(NULL);
}

static void test_auto(void **state)
{
    (void)state;
    char text[160];
    struct zc_placement *placement = make("auto", -1);      /* the only node there is, or none */
    const int node = zc_placement_node(placement);
    zc_placement_text(placement, node >= 0, node >= 0, text, sizeof text);
    assert_non_null(strstr(text, node >= 0 ? "the only one" : "mlx5_0"));
    zc_placement_destroy(placement);
    placement = make("auto", 4000);                         /* what no machine has is as good as unknown */
    assert_int_equal(zc_placement_node(placement), node);
    zc_placement_destroy(placement);
}

/* Node 0 exists wherever hwloc does; without it the error says what is missing. */
static void test_a_node(void **state)
{
    (void)state;
    struct zc_placement *placement = NULL;
    struct zc_error err = {0};
    const struct zc_device_info info = device(-1);
    assert_true(zc_placement_create("4000", &info, &placement, &err) < 0);
    assert_string_equal(err.field, "numa");
    assert_int_equal(err.kind, ZC_ERR_INVALID);
    assert_null(placement);
    if (zc_placement_create("0", &info, &placement, &err) < 0) {
        assert_non_null(strstr(err.message, "hwloc"));
        return;
    }
    assert_int_equal(zc_placement_node(placement), 0);
    zc_placement_destroy(placement);
}

static void *inherited(void *arg)
{
    sched_getaffinity(0, sizeof(cpu_set_t), arg);
    return NULL;
}

static void test_threads_follow_and_go_back(void **state)
{
    (void)state;
    cpu_set_t before, bound, child, after;
    pthread_t thread;
    struct zc_placement *placement = make("auto", 0);
    sched_getaffinity(0, sizeof before, &before);
    const int rc = zc_placement_apply(placement);
    sched_getaffinity(0, sizeof bound, &bound);
    if (rc == 0 && zc_placement_node(placement) >= 0)
        assert_true(CPU_COUNT(&bound) > 0);
    assert_int_equal(pthread_create(&thread, NULL, inherited, &child), 0);
    pthread_join(thread, NULL);
    assert_memory_equal(&bound, &child, sizeof bound);
    zc_placement_destroy(placement);
    sched_getaffinity(0, sizeof after, &after);
    assert_memory_equal(&before, &after, sizeof before);
}

static void test_words(void **state)
{
    (void)state;
    char text[160];
    struct zc_placement *placement = make("auto", 0);
    if (zc_placement_node(placement) < 0) {
        zc_placement_destroy(placement);
        skip();
    }
    assert_string_equal(zc_placement_text(placement, true, true, text, sizeof text),
                        "threads and memory on NUMA node 0, where mlx5_0 is");
    assert_string_equal(zc_placement_text(placement, true, false, text, sizeof text),
                        "threads on NUMA node 0, where mlx5_0 is; binding memory is not permitted");
    zc_placement_destroy(placement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none), cmocka_unit_test(test_auto), cmocka_unit_test(test_a_node),
        cmocka_unit_test(test_threads_follow_and_go_back), cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
