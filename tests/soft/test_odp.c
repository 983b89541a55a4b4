/* Registration on demand, advice, registering anew, and memory that is registered but not mapped (any more). */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { SIZE = 1 << 20, ODP = IBV_ACCESS_ON_DEMAND };

static const enum ibv_wr_opcode READ = IBV_WR_RDMA_READ, WRITE = IBV_WR_RDMA_WRITE;

static uint8_t *map(size_t n, int prot)
{
    uint8_t *p = mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(madvise(p, n, MADV_NOHUGEPAGE), 0);
    return p;
}

/* As munmap() for whoever touches the pages, but the range stays taken. Left free it might be given to the next allocation of the
 * device or of a sanitizer: requests would then find memory there, and unmapping the rest would take that memory away. */
static void take_away(uint8_t *p, size_t n)
{
    assert_ptr_equal(mmap(p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
}

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

static size_t resident(uint8_t *p, size_t n)
{
    unsigned char there[SIZE / 4096];
    size_t count = 0;
    assert_int_equal(mincore(p, n, there), 0);
    for (size_t i = 0; i < n / 4096; i++)
        count += there[i] & 1;
    return count;
}

static void attributes_tell(void **state)
{
    struct rig r;
    struct ibv_device_attr_ex ex;
    (void)state;
    rig_open(&r, NULL);
    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &ex), 0);
    assert_int_equal(ex.odp_caps.general_caps, IBV_ODP_SUPPORT);
    assert_true(ex.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_READ);
    assert_null(ibv_reg_mr(r.pd, NULL, SIZE_MAX, RIG_ALL | ODP)); /* no implicit ODP */
    rig_close(&r);
}

static void first_touch(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer src = rig_buffer(&r, SIZE, RIG_ALL);
    fill(&src, 4);
    long before = locked_kib();
    uint8_t *p = map(SIZE, PROT_READ | PROT_WRITE), *q = map(SIZE, PROT_READ | PROT_WRITE);
    struct ibv_mr *m = ibv_reg_mr(r.pd, p, SIZE, RIG_ALL | ODP), *n = ibv_reg_mr(r.pd, q, SIZE, RIG_ALL | ODP);
    assert_true(m && n);
    assert_int_equal(locked_kib(), before);
    assert_int_equal(resident(p, SIZE), 0);
    assert_int_equal(post_rdma(r.qp[0], READ, 1, p, SIZE / 2, m->lkey, src.p, src.mr->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(resident(p, SIZE), SIZE / 2 / 4096);
    assert_true(filled(p, SIZE / 2, 4, 0));
    /* as the memory that is read, never touched: zeros, and 100 bytes at a time; then written */
    assert_int_equal(post_rdma(r.qp[0], READ, 2, p, 100, m->lkey, q + 5000, n->rkey), 0);
    rig_expect(r.cq[0], 2, IBV_WC_SUCCESS);
    assert_int_equal(p[0] | p[99], 0);
    assert_int_equal(post_rdma(r.qp[0], WRITE, 3, src.p, SIZE, src.mr->lkey, q, n->rkey), 0);
    rig_expect(r.cq[0], 3, IBV_WC_SUCCESS);
    assert_true(filled(q, SIZE, 4, 0));
    assert_int_equal(ibv_dereg_mr(m), 0);
    assert_int_equal(ibv_dereg_mr(n), 0);
    munmap(p, SIZE);
    munmap(q, SIZE);
    rig_free(&src);
    rig_close(&r);
}

static void advice(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    uint8_t *p = map(SIZE, PROT_READ | PROT_WRITE);
    struct ibv_mr *m = ibv_reg_mr(r.pd, p, SIZE, RIG_ALL | ODP), *ro = ibv_reg_mr(r.pd, p, SIZE, IBV_ACCESS_REMOTE_READ | ODP);
    struct ibv_mr *pinned = ibv_reg_mr(r.pd, p + SIZE - 4096, 4096, RIG_ALL);
    struct ibv_sge s = {(uintptr_t)p + 8192, 40960, m->lkey}, bad = s;
    const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
    const enum ibv_advise_mr_advice write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, read = IBV_ADVISE_MR_ADVICE_PREFETCH;
    assert_int_equal(resident(p, SIZE), 1);
    assert_int_equal(ibv_advise_mr(r.pd, write, flush, &s, 1), 0);
    assert_int_equal(resident(p, SIZE), 11);
    assert_int_equal(ibv_advise_mr(r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flush, &s, 1), 0);
    bad.lkey = m->lkey + 1;
    assert_int_equal(ibv_advise_mr(r.pd, read, flush, &bad, 1), ENOENT);
    bad.lkey = pinned->lkey;
    assert_int_equal(ibv_advise_mr(r.pd, read, flush, &bad, 1), EINVAL);
    bad.lkey = ro->lkey;
    assert_int_equal(ibv_advise_mr(r.pd, write, flush, &bad, 1), EPERM);
    bad = (struct ibv_sge){(uintptr_t)p + SIZE - 10, 11, m->lkey};
    assert_int_equal(ibv_advise_mr(r.pd, read, flush, &bad, 1), EFAULT);
    assert_int_equal(ibv_advise_mr(r.pd, read, flush, &s, 0), EINVAL);
    take_away(p + 8192, 4096);
    assert_int_equal(ibv_advise_mr(r.pd, read, flush, &s, 1), EFAULT);
    assert_int_equal(ibv_advise_mr(r.pd, read, 0, &s, 1), 0); /* a hint */
    assert_int_equal(ibv_dereg_mr(m) | ibv_dereg_mr(ro) | ibv_dereg_mr(pinned), 0);
    munmap(p, SIZE);
    rig_close(&r);
}

static void reregistered(void **state)
{
    struct rig r;
    (void)state;
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, 8192, RIG_ALL), b = rig_buffer(&r, 8192, RIG_ALL), c = rig_buffer(&r, 8192, RIG_ALL);
    fill(&b, 1);
    fill(&c, 2);
    long before = locked_kib();
    struct ibv_mr *m = ibv_reg_mr(r.pd, b.p, 8192, RIG_ALL);
    uint32_t old = m->rkey;
    assert_int_equal(ibv_rereg_mr(m, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, c.p, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(post_rdma(r.qp[0], READ, 1, a.p, 100, a.mr->lkey, b.p, old), 0); /* as it was */
    rig_expect(r.cq[0], 1, IBV_WC_SUCCESS);
    assert_true(filled(a.p, 100, 1, 0));
    assert_int_equal(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, c.p, 8192, 0), 0);
    assert_ptr_equal(m->addr, c.p);
    assert_int_equal(post_rdma(r.qp[0], READ, 2, a.p, 100, a.mr->lkey, c.p, m->rkey), 0);
    rig_expect(r.cq[0], 2, IBV_WC_SUCCESS);
    assert_true(filled(a.p, 100, 2, 0));
    assert_int_equal(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
    assert_int_equal(locked_kib(), before);
    assert_int_equal(post_rdma(r.qp[0], READ, 3, a.p, 100, a.mr->lkey, c.p, m->rkey), 0);
    rig_expect(r.cq[0], 3, IBV_WC_REM_ACCESS_ERR);
    struct ibv_pd *pd = ibv_alloc_pd(r.ctx);
    assert_int_equal(ibv_rereg_mr(m, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dereg_mr(m), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    rig_free(&a);
    rig_free(&b);
    rig_free(&c);
    rig_close(&r);
}

/* --- registered and not there: an error for the request, and the process lives ------------------------------------------------- */

struct hole {
    enum ibv_wr_opcode op;
    bool remote; /* the hole is in the peer's memory */
    uint32_t length;
    enum ibv_wc_status status;
};

static const struct hole holes[] = {
    {IBV_WR_RDMA_READ, true, 64, IBV_WC_REM_ACCESS_ERR},   {IBV_WR_RDMA_READ, true, SIZE, IBV_WC_REM_ACCESS_ERR},
    {IBV_WR_RDMA_READ, false, 64, IBV_WC_LOC_PROT_ERR},    {IBV_WR_RDMA_READ, false, SIZE, IBV_WC_LOC_PROT_ERR},
    {IBV_WR_RDMA_WRITE, true, 64, IBV_WC_REM_ACCESS_ERR},  {IBV_WR_RDMA_WRITE, true, SIZE, IBV_WC_REM_ACCESS_ERR},
    {IBV_WR_RDMA_WRITE, false, 64, IBV_WC_LOC_PROT_ERR},   {IBV_WR_RDMA_WRITE, false, SIZE, IBV_WC_LOC_PROT_ERR},
    {IBV_WR_SEND, false, 64, IBV_WC_LOC_PROT_ERR},         {IBV_WR_SEND, true, 64, IBV_WC_REM_OP_ERR},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, true, 8, IBV_WC_REM_ACCESS_ERR},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, false, 8, IBV_WC_LOC_PROT_ERR},
};

static void run_hole(const struct hole *h, unsigned int access, bool in_the_middle)
{
    struct rig_options o = {.timeout = 14, .retry_cnt = 6};
    struct rig r;
    rig_open(&r, &o);
    struct buffer good = rig_buffer(&r, SIZE, RIG_ALL);
    size_t from = in_the_middle ? SIZE / 2 : 0;
    uint8_t *p = map(SIZE, PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(r.pd, p, SIZE, RIG_ALL | access);
    assert_non_null(mr);
    take_away(p + from, SIZE - from);
    struct buffer mine = h->remote ? good : (struct buffer){p, SIZE, mr}, theirs = h->remote ? (struct buffer){p, SIZE, mr} : good;
    assert_int_equal(post_recv(r.qp[1], 9, theirs.p, h->length, theirs.mr->lkey), 0);
    struct ibv_sge s = {(uintptr_t)mine.p, h->length, mine.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = h->op, .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)theirs.p, theirs.mr->rkey}};
    if (h->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr.wr.atomic.remote_addr = (uintptr_t)theirs.p, wr.wr.atomic.rkey = theirs.mr->rkey;
    assert_int_equal(post(r.qp[0], wr), 0);
    rig_expect(r.cq[0], 1, h->status);
    rig_wait_state(r.qp[0], IBV_QPS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(p, SIZE);
    rig_free(&good);
    rig_close(&r);
}

static void unmapped(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++) {
        print_message("    opcode %d, %u bytes, %s\n", holes[i].op, holes[i].length, holes[i].remote ? "theirs" : "ours");
        run_hole(&holes[i], 0, false);
        run_hole(&holes[i], ODP, false);
        if (holes[i].length == SIZE)
            run_hole(&holes[i], 0, true);
    }
}

/* What the program does with its own faults stays its affair. */
static sigjmp_buf back;
static volatile int *volatile nowhere = NULL;

static void on_segv(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static int crash_as_usual(void)
{
    struct rig r;
    rig_open(&r, NULL);
    *nowhere = 1;
    return 0;
}

static int handler_from_before(void)
{
    struct rig r;
    signal(SIGSEGV, on_segv);
    rig_open(&r, NULL);
    if (sigsetjmp(back, 1))
        return 33;
    *nowhere = 1;
    return 0;
}

/* One that comes later is asked in its turn, and the device is protected again after the next registration. */
static int handler_from_after(void)
{
    struct rig r;
    rig_open(&r, NULL);
    signal(SIGSEGV, on_segv);
    struct buffer a = rig_buffer(&r, 4096, RIG_ALL), b = rig_buffer(&r, 4096, RIG_ALL);
    take_away(b.p, 4096);
    assert_int_equal(post_rdma(r.qp[0], READ, 1, a.p, 64, a.mr->lkey, b.p, b.mr->rkey), 0);
    rig_expect(r.cq[0], 1, IBV_WC_REM_ACCESS_ERR);
    for (volatile int i = 0; i < 2; i++)
        if (sigsetjmp(back, 1) == 0) {
            *nowhere = 1;
            return 0;
        }
    return 34;
}

/* One that blocks signals while it runs and asks the device's: each fault is the first, for the thread too. */
static struct sigaction asked;

static void ask_on(int sig, siginfo_t *info, void *context)
{
    asked.sa_sigaction(sig, info, context);
}

static int handler_that_asks_on(void)
{
    struct rig r;
    struct sigaction a = {.sa_sigaction = ask_on, .sa_flags = SA_SIGINFO};
    rig_open(&r, NULL);
    struct buffer b = rig_buffer(&r, 4096, RIG_ALL | ODP);
    struct ibv_sge s = {(uintptr_t)b.p, 4096, b.mr->lkey};
    take_away(b.p, 4096);
    sigfillset(&a.sa_mask);
    sigaction(SIGSEGV, &a, &asked);
    for (int i = 0; i < 2; i++)
        if (ibv_advise_mr(r.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &s, 1) != EFAULT)
            return 0;
    return 36;
}

static pid_t device_thread(void)
{
    char path[64], name[16] = "";
    pid_t found = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fgets(name, sizeof name, f) && strcmp(name, "zcsoft\n") == 0)
            found = (pid_t)strtol(e->d_name, NULL, 10);
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return found;
}

static void leave(int sig)
{
    (void)sig;
    exit(35);
}

/* A handler of the program's that ends it, as test frameworks have one, while the device thread is at work. */
static int handler_that_exits(void)
{
    struct rig r;
    signal(SIGSEGV, leave);
    rig_open(&r, NULL);
    struct buffer a = rig_buffer(&r, SIZE, RIG_ALL), b = rig_buffer(&r, SIZE, RIG_ALL);
    pid_t to = device_thread();
    for (int i = 0; i < 60; i++)
        post_rdma(r.qp[0], READ, 1, a.p, SIZE, a.mr->lkey, b.p, b.mr->rkey);
    alarm(20);
    usleep(1000);
    if (to && syscall(SYS_tgkill, getpid(), to, SIGSEGV) == 0)
        pause();
    return 0;
}

static int in_child(int (*body)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void own_faults(void **state) /* first: it forks before the device exists */
{
    (void)state;
    signal(SIGSEGV, SIG_DFL); /* cmocka's */
    nowhere = (volatile int *)(void *)map(4096, PROT_NONE);
    assert_int_not_equal(in_child(crash_as_usual), 0); /* by the signal, or as a sanitizer reports it */
    assert_int_equal(in_child(handler_from_before), 33);
    assert_int_equal(in_child(handler_from_after), 34);
    assert_int_equal(in_child(handler_that_exits), 35);
    assert_int_equal(in_child(handler_that_asks_on), 36);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_faults),   cmocka_unit_test(attributes_tell), cmocka_unit_test(first_touch),
        cmocka_unit_test(advice),       cmocka_unit_test(reregistered),    cmocka_unit_test(unmapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
