/* How near does the software device come to what the machine can do? READs between two processes beside a bare loop of
 * process_vm_readv() and a round trip over a socket, in turns, and Debian's perftest on the device in the same run. The peer is this
 * program again (`--peer`), started by exec because a device does not survive fork(2). */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"

enum { MEMORY = 64 << 20, LARGE = 1 << 20, SMALL = 4096, TINY = 8, DEPTH = 16, LARGE_DEPTH = 8, PERFTEST_PORT = 18600 };

static struct settings {
    unsigned rounds;
    double window_s;
    bool realtime, perftest;
} settings = {7, 0.3, false, true};

/* What each side tells the other to connect. */
struct side {
    uint64_t address;
    uint32_t rkey, qp_num;
    union ibv_gid gid;
    pid_t pid;
};

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint8_t *memory;
    struct side own, other;
    int socket;
};

/* --- both ends ------------------------------------------------------------------------------------------------------------- */

static void exchange(struct end *e)
{
    if (write(e->socket, &e->own, sizeof e->own) != (ssize_t)sizeof e->own ||
        recv(e->socket, &e->other, sizeof e->other, MSG_WAITALL) != (ssize_t)sizeof e->other)
        bench_fail("the other side went away");
}

static void open_objects(struct end *e)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    e->context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    if (!e->context)
        bench_fail("no RDMA device");
    ibv_free_device_list(list);
    e->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (e->memory == MAP_FAILED)
        bench_fail("no memory");
    memset(e->memory, 1, MEMORY);
    e->pd = ibv_alloc_pd(e->context);
    e->channel = ibv_create_comp_channel(e->context);
    e->cq = ibv_create_cq(e->context, 2 * DEPTH, NULL, e->channel, 0);
    e->mr = e->pd ? ibv_reg_mr(e->pd, e->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ) : NULL;
    struct ibv_qp_init_attr init = {
        .send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    e->qp = e->cq && e->mr ? ibv_create_qp(e->pd, &init) : NULL;
    if (!e->qp)
        bench_fail("%s: %s", "PD, CQ, MR or QP", strerror(errno));
}

static void connect_ends(struct end *e)
{
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    int bad = ibv_query_port(e->context, 1, &port);
    bad |= ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    e->own = (struct side){.address = (uintptr_t)e->memory, .rkey = e->mr->rkey, .qp_num = e->qp->qp_num, .pid = getpid()};
    bad |= ibv_query_gid(e->context, 1, 0, &e->own.gid);
    exchange(e);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = e->other.qp_num, .max_dest_rd_atomic = DEPTH,
        .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = e->other.gid, .hop_limit = 1}},
    };
    bad |= ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = DEPTH};
    bad |= ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                           IBV_QP_MAX_QP_RD_ATOMIC);
    if (bad)
        bench_fail("the queue pair does not connect");
    exchange(e); /* both are ready */
}

static void close_end(struct end *e)
{
    ibv_destroy_qp(e->qp);
    ibv_dereg_mr(e->mr);
    ibv_destroy_cq(e->cq);
    ibv_destroy_comp_channel(e->channel);
    ibv_dealloc_pd(e->pd);
    ibv_close_device(e->context);
    munmap(e->memory, MEMORY);
    close(e->socket);
}

static void realtime(void)
{
    if (settings.realtime && !bench_realtime())
        bench_fail("SCHED_FIFO is refused");
}

/* --- the peer: shows its memory, and sends back what comes over the socket until it closes --------------------------------------- */

static int peer(int socket)
{
    struct end e = {.socket = socket};
    uint64_t word;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for the bare loop, where Yama restricts it */
    open_objects(&e);
    connect_ends(&e);
    realtime();
    while (read(socket, &word, sizeof word) == (ssize_t)sizeof word && write(socket, &word, sizeof word) > 0)
        ;
    close_end(&e);
    return 0;
}

static pid_t start_peer(char *const own_argv[], int *socket)
{
    int pair[2];
    char number[16];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        bench_fail("no socket pair");
    const pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        snprintf(number, sizeof number, "%d", pair[1]);
        execl("/proc/self/exe", own_argv[0], "--peer", number, settings.realtime ? "--realtime" : NULL, (char *)NULL);
        _exit(127);
    }
    if (pid < 0)
        bench_fail("no second process");
    close(pair[1]);
    *socket = pair[0];
    return pid;
}

/* --- subjects: each runs for a window and returns nanoseconds an operation ----------------------------------------------------------- */

struct subject {
    const char *name;
    uint32_t length;
    unsigned depth;
    bool events;
    double (*run)(struct end *e, const struct subject *s);
    struct bench_figure ns;
};

static uint64_t offset_of(uint64_t i, uint32_t length)
{
    const uint64_t stride = length < SMALL ? SMALL : length;
    return i * stride % MEMORY;
}

static void post(struct end *e, uint64_t i, uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)e->memory + offset_of(i, length), .length = length, .lkey = e->mr->lkey};
    struct ibv_send_wr *bad, wr = {
        .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = e->other.address + offset_of(i, length), .rkey = e->other.rkey},
    };
    if (ibv_post_send(e->qp, &wr, &bad))
        bench_fail("ibv_post_send");
}

static unsigned reap(struct end *e, bool events)
{
    struct ibv_wc wc[DEPTH];
    int n = ibv_poll_cq(e->cq, DEPTH, wc);
    if (!n && events) {
        struct ibv_cq *cq;
        void *context;
        if (ibv_req_notify_cq(e->cq, 0))
            bench_fail("ibv_req_notify_cq");
        n = ibv_poll_cq(e->cq, DEPTH, wc);
        if (!n && !ibv_get_cq_event(e->channel, &cq, &context))
            ibv_ack_cq_events(cq, 1);
    }
    for (int i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS)
            bench_fail("READ: %s", ibv_wc_status_str(wc[i].status));
    return (unsigned)n;
}

static double run_read(struct end *e, const struct subject *s)
{
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t posted = 0, done = 0, now = begin;
    while (now < end) {
        while (posted - done < s->depth)
            post(e, posted++, s->length);
        const unsigned n = reap(e, s->events);
        done += n;
        if (n)
            now = zc_now_ns();
    }
    const double ns = (double)(now - begin) / (double)done;
    while (done < posted)
        done += reap(e, s->events);
    return ns;
}

static double run_bare(struct end *e, const struct subject *s)
{
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t done = 0, now = begin;
    for (; now < end; done++, now = zc_now_ns()) {
        struct iovec here = {e->memory + offset_of(done, s->length), s->length};
        struct iovec there = {(void *)(uintptr_t)(e->other.address + offset_of(done, s->length)), s->length};
        if (process_vm_readv(e->other.pid, &here, 1, &there, 1, 0) != (ssize_t)s->length)
            bench_fail("process_vm_readv: %s", strerror(errno));
    }
    return (double)(now - begin) / (double)done;
}

static double run_socket(struct end *e, const struct subject *s)
{
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t done = 0, now = begin, word = 0;
    (void)s;
    for (; now < end; done++, now = zc_now_ns())
        if (write(e->socket, &word, sizeof word) < 0 || read(e->socket, &word, sizeof word) <= 0)
            bench_fail("the peer went away");
    return (double)(now - begin) / (double)done;
}

/* --- perftest ------------------------------------------------------------------------------------------------------------------- */

/* Runs server and client of a perftest program and returns one column of its row; NAN where it is not installed or fails. */
static double run_perftest(const char *program, const char *options, unsigned column, unsigned round)
{
    char command[512], line[512];
    const int port = PERFTEST_PORT + (int)round;
    double value = NAN;
    snprintf(command, sizeof command, "%s -F -p %d %s >/dev/null 2>&1 & sleep 0.5; %s -F -p %d %s 127.0.0.1 2>/dev/null; wait",
             program, port, options, program, port, options);
    FILE *const out = popen(command, "r");
    while (out && fgets(line, sizeof line, out)) {
        char *word = strtok(line, " \t\n");
        if (!word || strspn(word, "0123456789") != strlen(word))
            continue;
        for (unsigned i = 0; word && i < column; i++)
            word = strtok(NULL, " \t\n");
        if (word)
            value = strtod(word, NULL);
    }
    if (out)
        pclose(out);
    return value;
}

/* --- the table -------------------------------------------------------------------------------------------------------------------- */

enum { BARE_LARGE, READ_LARGE, READ_LARGE_ONE, BARE_SMALL, READ_SMALL, READ_SMALL_ONE, SOCKET, READ_TINY, READ_TINY_EVENT, SUBJECTS };

static struct subject subjects[SUBJECTS] = {
    [BARE_LARGE] = {"process_vm_readv, 1 MiB", LARGE, 1, false, run_bare, {.count = 0}},
    [READ_LARGE] = {"READ 1 MiB, 8 in flight", LARGE, LARGE_DEPTH, false, run_read, {.count = 0}},
    [READ_LARGE_ONE] = {"READ 1 MiB, one at a time", LARGE, 1, false, run_read, {.count = 0}},
    [BARE_SMALL] = {"process_vm_readv, 4 KiB", SMALL, 1, false, run_bare, {.count = 0}},
    [READ_SMALL] = {"READ 4 KiB, 16 in flight", SMALL, DEPTH, false, run_read, {.count = 0}},
    [READ_SMALL_ONE] = {"READ 4 KiB, one at a time", SMALL, 1, false, run_read, {.count = 0}},
    [SOCKET] = {"Unix stream socket, 8 bytes, round trip", TINY, 1, false, run_socket, {.count = 0}},
    [READ_TINY] = {"READ 8 bytes, polling", TINY, 1, false, run_read, {.count = 0}},
    [READ_TINY_EVENT] = {"READ 8 bytes, waiting for events", TINY, 1, true, run_read, {.count = 0}},
};

static void print_subject(const struct subject *s)
{
    const double median = bench_median(&s->ns);
    printf("%-42s %9.2f %9.2f ..%9.2f %11.0f %9.2f\n", s->name, median / 1e3, bench_min(&s->ns) / 1e3, bench_max(&s->ns) / 1e3,
           1e9 / median, s->length / median * 1e9 / (1 << 30));
}

static void print_figure(const char *name, const struct bench_figure *f, double goal, bool at_most, const char *unit)
{
    const double median = bench_median(f);
    printf("%-42s %9.2f %9.2f ..%9.2f %s", name, median, bench_min(f), bench_max(f), unit);
    if (goal > 0)
        printf("   goal at %s %g: %s", at_most ? "most" : "least", goal,
               (at_most ? median <= goal : median >= goal) ? "reached" : "MISSED");
    putchar('\n');
}

/* Of times an operation, taken within each round. */
static struct bench_figure ratio(const struct subject *a, const struct subject *b)
{
    struct bench_figure f = {.count = 0};
    for (size_t i = 0; i < a->ns.count; i++)
        bench_add(&f, a->ns.values[i] / b->ns.values[i]);
    return f;
}

static void print_table(const struct bench_figure *bandwidth, const struct bench_figure *latency)
{
    struct bench_figure f, rate = {.count = 0};
    printf("%-42s %9s %20s %11s %9s\n", "", "us", "lowest .. highest", "a second", "GiB/s");
    for (int i = 0; i < SUBJECTS; i++)
        print_subject(&subjects[i]);
    putchar('\n');
    f = ratio(&subjects[BARE_LARGE], &subjects[READ_LARGE]);
    print_figure("speed of READ 1 MiB to the bare loop", &f, 0.8, false, "x");
    f = ratio(&subjects[BARE_LARGE], &subjects[READ_LARGE_ONE]);
    print_figure("  one at a time", &f, 0, false, "x");
    for (size_t i = 0; i < subjects[READ_SMALL].ns.count; i++)
        bench_add(&rate, 1e6 / subjects[READ_SMALL].ns.values[i]);
    print_figure("READs of 4 KiB a millisecond, 16 in flight", &rate, 200, false, "/ms");
    f = ratio(&subjects[BARE_SMALL], &subjects[READ_SMALL]);
    print_figure("  speed to the bare loop", &f, 0, false, "x");
    f = ratio(&subjects[READ_TINY], &subjects[SOCKET]);
    print_figure("latency of READ 8 bytes to the round trip", &f, 3, true, "x");
    f = ratio(&subjects[READ_TINY_EVENT], &subjects[SOCKET]);
    print_figure("  waiting for events", &f, 0, true, "x");
    if (!settings.perftest)
        return;
    putchar('\n');
    print_figure("ib_read_bw -s 1048576, average", bandwidth, 0, false, "MiB/s");
    print_figure("ib_read_lat -s 8, typical", latency, 0, false, "us");
}

/* --- main ------------------------------------------------------------------------------------------------------------------------- */

static int parse(int argc, char **argv)
{
    static const struct option longs[] = {
        {"rounds", required_argument, NULL, 'r'}, {"window", required_argument, NULL, 'w'}, {"realtime", no_argument, NULL, 'R'},
        {"no-perftest", no_argument, NULL, 'P'},  {"peer", required_argument, NULL, 'p'},   {NULL, 0, NULL, 0},
    };
    int socket = -1;
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;)
        switch (option) {
        case 'r': settings.rounds = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'w': settings.window_s = strtod(optarg, NULL); break;
        case 'R': settings.realtime = true; break;
        case 'P': settings.perftest = false; break;
        case 'p': socket = atoi(optarg); break;
        default: bench_fail("usage: device [--rounds N] [--window SECONDS] [--realtime] [--no-perftest]");
        }
    if (settings.rounds < 1 || settings.rounds > BENCH_ROUNDS_MAX || settings.window_s <= 0)
        bench_fail("--rounds 1 to %d, --window above 0", BENCH_ROUNDS_MAX);
    return socket;
}

int main(int argc, char **argv)
{
    const int socket = parse(argc, argv);
    if (socket >= 0)
        return peer(socket);

    struct end e = {.socket = -1};
    struct bench_figure bandwidth = {.count = 0}, latency = {.count = 0};
    const pid_t pid = start_peer(argv, &e.socket);
    open_objects(&e);
    connect_ends(&e);
    realtime();
    printf("READs between two processes on %s: %u rounds of %g s each, %ld CPUs, load average %.1f%s\n\n",
           ibv_get_device_name(e.context->device), settings.rounds, settings.window_s, sysconf(_SC_NPROCESSORS_ONLN), bench_load(),
           settings.realtime ? ", SCHED_FIFO" : "");
    fflush(stdout);
    for (unsigned round = 0; round < settings.rounds; round++) {
        for (int i = 0; i < SUBJECTS; i++)
            bench_add(&subjects[i].ns, subjects[i].run(&e, &subjects[i]));
        if (settings.perftest) {
            bench_add(&bandwidth, run_perftest("ib_read_bw", "-s 1048576 -n 1000", 3, round));
            bench_add(&latency, run_perftest("ib_read_lat", "-s 8 -n 2000", 4, round));
        }
    }
    print_table(&bandwidth, &latency);
    close_end(&e);
    waitpid(pid, NULL, 0);
    return 0;
}
