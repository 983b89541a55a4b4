/* SEND and WRITE whose payload the responder fetches by process_vm_readv(2): that it does where it should, that the stream takes
 * over where it may not, and lists of SGEs that are cut differently on the two sides. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { SIZE = 1 << 20 };

static bool transport_is(const char *name)
{
    const char *t = getenv("ZCSOFT_TRANSPORT");
    return t && strcmp(t, name) == 0;
}

static void forbid_process_vm_readv(uint32_t action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
        _exit(77);
}

static bool moved(struct rig *r, enum ibv_wr_opcode op, uint8_t seed)
{
    struct buffer a = rig_buffer(r, SIZE, RIG_ALL), b = rig_buffer(r, SIZE, RIG_ALL);
    struct ibv_sge s = {(uintptr_t)a.p, SIZE, a.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)b.p, b.mr->rkey}};
    fill(&a, seed);
    for (int i = 0; i < 3; i++) {
        if (op != IBV_WR_RDMA_WRITE)
            assert_int_equal(post_recv(r->qp[1], 2, b.p, SIZE, b.mr->lkey), 0);
        assert_int_equal(post(r->qp[0], wr), 0);
        rig_expect(r->cq[0], 1, IBV_WC_SUCCESS);
        if (op != IBV_WR_RDMA_WRITE)
            rig_expect(r->cq[1], 2, IBV_WC_SUCCESS);
    }
    bool good = filled(b.p, SIZE, seed, 0);
    rig_free(&a);
    rig_free(&b);
    return good;
}

static int child(uint32_t action)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct rig r;
        forbid_process_vm_readv(action);
        rig_open(&r, NULL);
        _exit(moved(&r, IBV_WR_RDMA_WRITE, 3) && moved(&r, IBV_WR_SEND, 5) && moved(&r, IBV_WR_RDMA_WRITE_WITH_IMM, 7) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void fetched_or_streamed(void **state) /* first: it forks before the device exists */
{
    (void)state;
    assert_int_equal(child(SECCOMP_RET_KILL_PROCESS), transport_is("direct") ? 128 + SIGSYS : 0);
    assert_int_equal(child(SECCOMP_RET_ERRNO | EPERM), 0);
    assert_int_equal(child(SECCOMP_RET_ERRNO | ESRCH), 0);
}

/* The cuts of the sender fall on none of the receiver's. */
static void lists_cut_differently(void **state)
{
    const uint32_t from[] = {20000, 1, 300000, 60000}, to[] = {7, 49993, 330000, 1000000};
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, SIZE, RIG_ALL), b = rig_buffer(&r, 2 * SIZE, RIG_ALL);
    struct ibv_sge out[4], in[4];
    uint32_t total = 0, room = 0, left = 0;
    fill(&a, 9);
    for (int i = 0; i < 4; i++) {
        out[i] = (struct ibv_sge){(uintptr_t)a.p + total, from[i], a.mr->lkey};
        in[i] = (struct ibv_sge){(uintptr_t)b.p + room + 100u * (uint32_t)i, to[i], b.mr->lkey}; /* gaps between them */
        total += from[i];
        room += to[i];
    }
    struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = in, .num_sge = 4}, *bad;
    assert_int_equal(ibv_post_recv(r.qp[1], &recv, &bad), 0);
    assert_int_equal(post(r.qp[0], (struct ibv_send_wr){.wr_id = 1, .sg_list = out, .num_sge = 4, .opcode = IBV_WR_SEND,
                                                        .send_flags = IBV_SEND_SIGNALED}), 0);
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    struct ibv_wc wc = rig_wait(r.cq[1]);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, total);
    left = total;
    for (uint32_t i = 0, at = 0; left; i++) {
        uint32_t n = left < to[i] ? left : to[i];
        assert_true(filled((uint8_t *)(uintptr_t)in[i].addr, n, 9, at));
        assert_int_equal(((uint8_t *)(uintptr_t)in[i].addr)[n], 0);
        at += n;
        left -= n;
    }
    rig_free(&a);
    rig_free(&b);
    rig_close(&r);
}

/* Large and small mixed, longer than one turn of the device: everything arrives, in order. */
static void in_order(void **state)
{
    enum { COUNT = 48 };
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, COUNT * 4, RIG_ALL), big = rig_buffer(&r, SIZE, RIG_ALL);
    struct buffer b = rig_buffer(&r, SIZE, RIG_ALL), seen = rig_buffer(&r, SIZE, RIG_ALL);
    uint32_t *number = (uint32_t *)(void *)a.p;
    for (uint32_t i = 0; i < COUNT; i++) {
        number[i] = i;
        assert_int_equal(post_recv(r.qp[1], i, i % 3 ? b.p : seen.p + (size_t)i * 4, i % 3 ? SIZE : 4, i % 3 ? b.mr->lkey : seen.mr->lkey), 0);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(i % 3 ? post_send(r.qp[0], i, big.p, SIZE, big.mr->lkey, IBV_SEND_SIGNALED)
                               : post_send(r.qp[0], i, number + i, 4, a.mr->lkey, IBV_SEND_SIGNALED), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        rig_expect(r.cq[0], i, IBV_WC_SUCCESS);
        rig_expect(r.cq[1], i, IBV_WC_SUCCESS);
        if (i % 3 == 0)
            assert_int_equal(((uint32_t *)(void *)seen.p)[i], i);
    }
    rig_free(&a);
    rig_free(&big);
    rig_free(&b);
    rig_free(&seen);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fetched_or_streamed),
        cmocka_unit_test(lists_cut_differently),
        cmocka_unit_test(in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
