/* Registration: what is refused, what is locked, what is charged, and to whom. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static long locked_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmLck: %ld", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

static uint8_t *map(size_t n, int prot)
{
    uint8_t *p = mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static void expect_refused(struct rig *r, void *p, size_t n, unsigned int access, int error)
{
    errno = 0;
    assert_null(ibv_reg_mr(r->pd, p, n, access));
    assert_int_equal(errno, error);
}

static void refused(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    uint8_t *p = map(16384, PROT_READ | PROT_WRITE);
    long before = locked_kib();
    expect_refused(&r, p, 0, IBV_ACCESS_LOCAL_WRITE, EINVAL);
    expect_refused(&r, p, 100, IBV_ACCESS_REMOTE_WRITE, EINVAL); /* needs LOCAL_WRITE */
    expect_refused(&r, (void *)(UINTPTR_MAX - 100), 4096, 0, EINVAL);
    munmap(p + 8192, 4096);
    expect_refused(&r, p, 16384, IBV_ACCESS_LOCAL_WRITE, EFAULT); /* a hole in it */
    expect_refused(&r, p + 8192, 10, 0, EFAULT);
    mprotect(p, 4096, PROT_READ);
    expect_refused(&r, p, 8192, IBV_ACCESS_LOCAL_WRITE, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 8192, IBV_ACCESS_REMOTE_READ); /* to be read only */
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(locked_kib(), before); /* what was refused left nothing locked */
    munmap(p, 8192);
    munmap(p + 12288, 4096);
    rig_close(&r);
}

static void pages_are_counted(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    uint8_t *p = map(1 << 20, PROT_READ | PROT_WRITE);
    long base = locked_kib();
    struct ibv_mr *a = ibv_reg_mr(r.pd, p, 6000, RIG_ALL), *b = ibv_reg_mr(r.pd, p + 5000, 6000, RIG_ALL);
    struct ibv_mr *c = ibv_reg_mr(r.pd, p, 1 << 20, RIG_ALL);
    assert_true(a && b && c);
    assert_int_equal(locked_kib() - base, 1024);
    assert_int_equal(ibv_dereg_mr(c), 0);
    assert_int_equal(locked_kib() - base, 12); /* pages 0, 1, 2 */
    assert_int_equal(ibv_dereg_mr(a), 0);
    assert_int_equal(locked_kib() - base, 8); /* page 1 is b's too */
    assert_int_equal(ibv_dereg_mr(b), 0);
    assert_int_equal(locked_kib() - base, 0);
    munmap(p, 1 << 20);
    rig_close(&r);
}

static void keys_die(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    uint8_t *p = map(4096, PROT_READ | PROT_WRITE);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, 4096, RIG_ALL);
    uint32_t old = mr->rkey;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    for (int i = 0; i < 100000; i++) { /* the same memory again: never under the old key */
        mr = ibv_reg_mr(r.pd, p, 4096, RIG_ALL);
        assert_non_null(mr);
        assert_int_not_equal(mr->rkey, old);
        if (i < 99999)
            assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 1, a.p, 8, a.mr->lkey, p, old), 0);
    rig_expect(r.cq[0], 1, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(p, 4096);
    rig_free(&a);
    rig_close(&r);
}

static void many_small_regions(void **state)
{
    enum { N = 40000 };
    static struct ibv_mr *mr[N];
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    uint8_t *p = map((size_t)N * 8192, PROT_READ | PROT_WRITE);
    for (int i = 0; i < N; i++) { /* every other page: each lock splits the mapping */
        mr[i] = ibv_reg_mr(r.pd, p + (size_t)i * 8192, 100, RIG_ALL);
        assert_non_null(mr[i]);
    }
    for (int i = 0; i < 100; i++) { /* and the program can still map */
        uint8_t *q = map(4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
        assert_non_null(q);
    }
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 1, mr[0]->addr, 100, mr[0]->lkey, mr[N - 1]->addr, mr[N - 1]->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    for (int i = 0; i < N; i++)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    munmap(p, (size_t)N * 8192);
    rig_close(&r);
}

static void pd_busy_and_foreign(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL);
    struct ibv_pd *other = ibv_alloc_pd(r.ctx);
    struct ibv_mr *mr = ibv_reg_mr(other, a.p, 4096, RIG_ALL);
    assert_non_null(mr);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 1, a.p, 8, a.mr->lkey, a.p, mr->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_REM_ACCESS_ERR); /* another PD's key */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    rig_free(&a);
    rig_close(&r);
}

static void iova(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 8192, RIG_ALL), b = rig_buffer(&r, 8192, RIG_ALL);
    fill(&b, 6);
    struct ibv_mr *mr = ibv_reg_mr_iova(r.pd, b.p, 8192, 0x1000000, RIG_ALL);
    assert_non_null(mr);
    assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, 1, a.p, 100, a.mr->lkey, (void *)0x1000064, mr->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    assert_true(filled(a.p, 100, 6, 100));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

/* In a child without privileges, before it has touched the device. */
static int unprivileged_child(void)
{
    struct rlimit limit = {65536, 65536};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(65534) || setuid(65534))
        return 77;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = list ? ibv_open_device(list[0]) : NULL;
    struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
    uint8_t *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!pd || p == MAP_FAILED)
        return 1;
    struct ibv_mr *a = ibv_reg_mr(pd, p, 40000, RIG_ALL); /* 40960 charged */
    if (!a)
        return 2;
    if (ibv_reg_mr(pd, p, 40000, RIG_ALL) || errno != ENOMEM) /* the same pages again: charged again */
        return 3;
    struct ibv_mr *b = ibv_reg_mr(pd, p + (1 << 19), 20000, RIG_ALL);
    if (!b)
        return 4;
    if (ibv_reg_mr(pd, p + (1 << 18), 8192, RIG_ALL) || errno != ENOMEM)
        return 5;
    if (ibv_dereg_mr(a) || !(a = ibv_reg_mr(pd, p, 40000, RIG_ALL))) /* given back */
        return 6;
    return ibv_dereg_mr(a) || ibv_dereg_mr(b) ? 7 : 0;
}

static void limit_of_locked_memory(void **state)
{
    int status;
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(unprivileged_child());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The device belongs to the process that opened it; what a child does with it fails and hurts nobody. */
static void forked_child(void **state)
{
    struct rig r;
    int status;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 1 << 20, RIG_ALL), b = rig_buffer(&r, 1 << 20, RIG_ALL);
    fill(&b, 7);
    pid_t child = fork();
    if (child == 0) {
        struct ibv_sge s = {(uintptr_t)a.p, 8, a.mr->lkey};
        struct ibv_send_wr w = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
        bool refuses = ibv_post_send(r.qp[0], &w, &bad) && !ibv_reg_mr(r.pd, a.p, 8, 0) && !ibv_alloc_pd(r.ctx);
        memset(b.p, 0, b.size);
        _exit(refuses ? 0 : 1);
    }
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(post_rdma(r.qp[0], IBV_WR_RDMA_READ, i, a.p, 1 << 20, a.mr->lkey, b.p, b.mr->rkey), 0);
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        assert_true(filled(a.p, a.size, 7, 0));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_of_locked_memory), /* first: it forks before the device exists */
        cmocka_unit_test(refused),
        cmocka_unit_test(pages_are_counted),
        cmocka_unit_test(keys_die),
        cmocka_unit_test(many_small_regions),
        cmocka_unit_test(pd_busy_and_foreign),
        cmocka_unit_test(iova),
        cmocka_unit_test(forked_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
