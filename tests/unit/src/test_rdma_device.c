/* Devices, registration and completions on a real device: the software device under ctest, rxe in the lab. */
#include "rdma_fixture.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void test_list_and_open(void **state)
{
    (void)state;
    struct zc_device_info infos[8];
    struct zc_device *device;
    struct zc_error err = {0};
    size_t count = 0;
    assert_int_equal(zc_device_list(infos, 8, &count, &err), 0);
    assert_true(count >= 1);
    assert_int_equal(zc_device_list(NULL, 0, &count, &err), 0);
    assert_true(count >= 1);

    assert_int_equal(zc_device_open(NULL, &device, &err), 0);
    const struct zc_device_info *info = zc_device_info(device);
    assert_string_equal(info->port_state, "ACTIVE");
    assert_true(info->address[0] && info->name[0] && info->netdev[0]);
    assert_true(info->max_qp_init_rd_atom >= 1 && info->max_qp_rd_atom >= 1);
    assert_true(info->active_mtu >= 256 && info->active_mtu <= info->max_mtu);
    assert_true(info->max_qp > 0 && info->max_cqe > 0 && info->max_qp_wr > 0 && info->max_sge > 0);
    assert_true(info->max_msg_size_bytes > 0 && info->max_mr_size_bytes > 0);
    if (zc_device_cpu_ns() != ZC_UNMEASURED)
        assert_int_equal(info->kind, ZC_DEVICE_SOFTWARE);
    else if (strncmp(info->name, "rxe", 3) == 0)
        assert_int_equal(info->kind, ZC_DEVICE_RXE);
    if (info->kind != ZC_DEVICE_HARDWARE)
        assert_true(isnan(info->rate_gbit_per_s));
    struct zc_device_info now;
    char note[ZC_PORT_NOTE_MAX];
    assert_int_equal(zc_device_look(device, &now, &err), 0);
    assert_string_equal(now.port_state, "ACTIVE");
    assert_string_equal(now.name, info->name);
    assert_string_equal(zc_device_port_note(device, note), "");
    assert_string_equal(zc_device_port_note(NULL, note), "");
    assert_false(zc_device_gone(device));

    struct zc_device *again;
    assert_int_equal(zc_device_open(info->name, &again, &err), 0);
    assert_string_equal(zc_device_info(again)->name, info->name);
    zc_device_close(again);
    zc_device_close(device);
    fixture_assert_counts((struct fixture_counts){0});
}

static void test_unknown_name(void **state)
{
    (void)state;
    struct zc_device_info info;
    struct zc_device *device = NULL;
    struct zc_error err = {0};
    size_t count;
    assert_int_equal(zc_device_list(&info, 1, &count, &err), 0);
    assert_int_equal(zc_device_open("mlx5_99", &device, &err), -ENODEV);
    assert_int_equal(err.kind, ZC_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "mlx5_99"));
    assert_non_null(strstr(err.message, info.name));
    assert_null(device);
}

static void test_registration_errors(void **state)
{
    (void)state;
    struct zc_device *device;
    struct zc_buffer buffer;
    struct zc_error err = {0};
    struct ibv_mr *mr = NULL;
    assert_int_equal(zc_device_open(NULL, &device, &err), 0);
    uint64_t before = zc_counters.registrations;

    void *unmapped = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(unmapped, 8192);
    assert_true(zc_mr_register(device, unmapped, 4096, IBV_ACCESS_LOCAL_WRITE, "thin air", &mr, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_DEVICE);
    assert_non_null(strstr(err.message, "4 KiB of thin air"));
    assert_null(mr);

    assert_int_equal(zc_buffer_create(65536, -1, &buffer, &err), 0);
    assert_int_equal(zc_mr_register(device, buffer.address, 65536, IBV_ACCESS_LOCAL_WRITE, "a buffer", &mr, &err), 0);
    assert_int_equal(zc_counters.registrations, before + 1);
    assert_int_equal(zc_counters.mr_bytes, 65536);
    zc_mr_deregister(mr);
    zc_mr_deregister(NULL);
    zc_buffer_destroy(&buffer);
    zc_device_close(device);
    fixture_assert_counts((struct fixture_counts){0});
}

/* In a child, because the limit and the user are for good. Root is not limited by the kernel, so it becomes nobody. */
static void memlock_child(void)
{
    struct zc_device *device;
    struct zc_buffer buffer;
    struct zc_error err = {0};
    struct ibv_mr *mr[2];
    struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    if (zc_device_open(NULL, &device, &err) || zc_buffer_create(2 << 20, -1, &buffer, &err))
        exit(3);
    setrlimit(RLIMIT_MEMLOCK, &limit);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
        exit(4);
    if (zc_mr_register(device, buffer.address, 256 << 10, IBV_ACCESS_LOCAL_WRITE, "staging memory", &mr[0], &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(5);
    }
    int rc = zc_mr_register(device, buffer.address, 2 << 20, IBV_ACCESS_LOCAL_WRITE, "staging memory", &mr[1], &err);
    static const char expected[] = "cannot register 2 MiB of staging memory: RLIMIT_MEMLOCK is 1 MiB and 256 KiB are registered already; "
                                   "raise it (ulimit -l unlimited, or LimitMEMLOCK=infinity in zcrdmad.service)";
    if (rc >= 0 || err.kind != ZC_ERR_MEMLOCK || strcmp(err.message, expected) != 0) {
        fprintf(stderr, "%d %s\n", rc, err.message);
        exit(6);
    }
    zc_mr_deregister(mr[0]);
    zc_buffer_destroy(&buffer);
    zc_device_close(device);
    exit(0);
}

static void test_memlock(void **state)
{
    (void)state;
    char self[256] = "", command[300];
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(command, sizeof(command), "'%s' --memlock", self);
    assert_int_equal(system(command), 0);
}

static void test_completion_waits(void **state)
{
    (void)state;
    struct zc_device *device;
    struct zc_completion *completion;
    struct zc_error err = {0};
    struct ibv_wc wc;
    assert_int_equal(zc_device_open(NULL, &device, &err), 0);
    assert_int_equal(zc_completion_create(device, 16, &completion, &err), 0);
    assert_int_equal(zc_completion_rearm(completion), 0);
    assert_int_equal(zc_completion_rearm(completion), 0);
    assert_int_equal(zc_completion_poll(completion, 1, &wc), 0);
    uint64_t started_ns = zc_now_ns();
    assert_int_equal(zc_completion_wait(completion, -1, started_ns + 50000000), 0);
    assert_true(zc_now_ns() - started_ns >= 50000000);
    int wake_fd = eventfd(1, EFD_CLOEXEC);
    assert_int_equal(zc_completion_wait(completion, wake_fd, zc_now_ns() + UINT64_C(10000000000)), 0);
    assert_true(zc_now_ns() - started_ns < UINT64_C(5000000000));
    close(wake_fd);
    zc_completion_destroy(completion);
    zc_completion_destroy(NULL);
    assert_true(zc_completion_create(device, 1 << 30, &completion, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_RESOURCE);
    zc_device_close(device);
    fixture_assert_counts((struct fixture_counts){0});
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--memlock") == 0)
        memlock_child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_and_open), cmocka_unit_test(test_unknown_name), cmocka_unit_test(test_registration_errors),
        cmocka_unit_test(test_memlock), cmocka_unit_test(test_completion_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
