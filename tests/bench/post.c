/* What does posting through post.h cost beside a bare loop of ibv_post_send() or ibv_wr_*(), and what does it save beside a wrapper that
 * builds its lists with malloc and copies inline bytes? And what does inline sending save and cost? Two queue pairs in one process.
 * Instructions are counted by callgrind, of this program again (`--count`), on a queue pair whose provider does nothing. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "pair.h"

enum { BATCH_MAX = 32, DEPTH = 64, BYTES = 32, COUNTED = 1000, INSTRUCTIONS_GOAL = 40 };
static const unsigned batches[] = {1, 8, 32};
enum { BATCHES = sizeof batches / sizeof batches[0] };

static struct settings {
    unsigned rounds;
    double window_s;
    bool realtime, instructions;
} settings = {9, 0.1, false, true};

static uint8_t bytes[BATCH_MAX][BYTES];     /* what is sent inline */

/* --- three ways to post `batch` inline WRITEs with one doorbell ------------------------------------------------------------------ */

static uint64_t remote(const struct pair *pair, unsigned i)
{
    return (uintptr_t)pair->memory[1] + i * BYTES;
}

static int raw_basic(struct pair *pair, unsigned batch)
{
    struct ibv_send_wr wrs[BATCH_MAX], *bad;
    struct ibv_sge sges[BATCH_MAX];
    for (unsigned i = 0; i < batch; i++) {
        sges[i].addr = (uintptr_t)bytes[i];
        sges[i].length = BYTES;
        wrs[i].wr_id = i;
        wrs[i].next = i + 1 < batch ? &wrs[i + 1] : NULL;
        wrs[i].sg_list = &sges[i];
        wrs[i].num_sge = 1;
        wrs[i].opcode = IBV_WR_RDMA_WRITE;
        wrs[i].send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        wrs[i].wr.rdma.remote_addr = remote(pair, i);
        wrs[i].wr.rdma.rkey = pair->mr[1]->rkey;
    }
    return ibv_post_send(pair->qp[0], wrs, &bad);
}

static int raw_extended(struct pair *pair, unsigned batch)
{
    struct ibv_qp_ex *const ex = pair->sender[0].ex;
    ibv_wr_start(ex);
    for (unsigned i = 0; i < batch; i++) {
        ex->wr_id = i;
        ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        ibv_wr_rdma_write(ex, pair->mr[1]->rkey, remote(pair, i));
        ibv_wr_set_inline_data(ex, bytes[i], BYTES);
    }
    return ibv_wr_complete(ex);
}

static int ours(struct pair *pair, unsigned batch)
{
    struct ibv_send_wr wrs[BATCH_MAX];
    struct ibv_sge sges[BATCH_MAX];
    for (unsigned i = 0; i < batch; i++) {
        sges[i].addr = (uintptr_t)bytes[i];
        sges[i].length = BYTES;
        zc_wr_write(&wrs[i], i, &sges[i], 1, remote(pair, i), pair->mr[1]->rkey, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    }
    zc_wr_link_send(wrs, batch);
    return zc_sender_post(&pair->sender[0], wrs, NULL, NULL);
}

/* A list that grows with every WR, and its own copy of the bytes. */
static int copying(struct pair *pair, unsigned batch)
{
    struct owned {
        struct ibv_send_wr wr;
        struct ibv_sge sge;
        uint8_t *bytes;
    } *list = NULL, *last = NULL, **made = malloc(batch * sizeof *made);
    for (unsigned i = 0; i < batch; i++) {
        struct owned *const o = calloc(1, sizeof *o);
        o->bytes = malloc(BYTES);
        memcpy(o->bytes, bytes[i], BYTES);
        o->sge = (struct ibv_sge){.addr = (uintptr_t)o->bytes, .length = BYTES};
        o->wr = (struct ibv_send_wr){.wr_id = i, .sg_list = &o->sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
        o->wr.wr.rdma.remote_addr = remote(pair, i);
        o->wr.wr.rdma.rkey = pair->mr[1]->rkey;
        if (last)
            last->wr.next = &o->wr;
        else
            list = o;
        made[i] = last = o;
    }
    const int rc = zc_sender_post(&pair->sender[0], &list->wr, NULL, NULL);
    for (unsigned i = 0; i < batch; i++) {
        free(made[i]->bytes);
        free(made[i]);
    }
    free(made);
    return rc;
}

static int raw_poll(struct pair *pair, int max, struct ibv_wc *wcs)
{
    struct ibv_cq_ex *const ex = pair->poller[0].ex;
    struct ibv_poll_cq_attr attr = {0};
    int count = 0;
    if (!ex)
        return ibv_poll_cq(pair->poller[0].cq, max, wcs);
    if (ibv_start_poll(ex, &attr) != 0)
        return 0;
    do {
        wcs[count].wr_id = ex->wr_id;
        wcs[count++].status = ex->status;
    } while (count < max && ibv_next_poll(ex) == 0);
    ibv_end_poll(ex);
    return count;
}

static int our_poll(struct pair *pair, int max, struct ibv_wc *wcs)
{
    return zc_poll(&pair->poller[0], max, wcs);
}

enum way { RAW, OURS, COPYING, WAYS };
static const char *const way_names[] = {"bare loop", "post.h", "malloc and copy"};

struct method {
    int (*post)(struct pair *pair, unsigned batch);
    int (*poll)(struct pair *pair, int max, struct ibv_wc *wcs);
};

static struct method method_of(const struct pair *pair, enum way way)
{
    if (way == RAW)
        return (struct method){pair->sender[0].ex ? raw_extended : raw_basic, raw_poll};
    return (struct method){way == OURS ? ours : copying, our_poll};
}

/* --- WRs posted and polled ---------------------------------------------------------------------------------------------------- */

static unsigned drain(struct pair *pair, const struct method *method)
{
    struct ibv_wc wcs[BATCH_MAX];
    const int count = method->poll(pair, BATCH_MAX, wcs);
    for (int i = 0; i < count; i++)
        if (wcs[i].status != IBV_WC_SUCCESS)
            bench_fail("%s", ibv_wc_status_str(wcs[i].status));
    return count > 0 ? (unsigned)count : 0;
}

/* ns a WR: within the post calls, which is what the caller's thread pays for posting, and in all, to the completion. */
struct cost {
    struct bench_figure post, all;
};

static void measure(struct pair *pair, enum way way, unsigned batch, struct cost *cost)
{
    const struct method method = method_of(pair, way);
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t now = begin, done = 0, posting = 0, posted = 0;
    unsigned flying = 0;
    while (now < end) {
        while (flying + batch <= DEPTH) {
            if (method.post(pair, batch) != 0)
                bench_fail("a batch of %u was refused", batch);
            flying += batch;
            posted += batch;
        }
        posting += zc_now_ns() - now;
        const unsigned got = drain(pair, &method);
        flying -= got;
        done += got;
        now = zc_now_ns();
    }
    while (flying > 0)
        flying -= drain(pair, &method);
    bench_add(&cost->post, (double)posting / (double)posted);
    bench_add(&cost->all, (double)(now - begin) / (double)done);
}

/* Round by round: what disturbs the machine for a while disturbs both. */
static struct bench_figure ratio(const struct bench_figure *of, const struct bench_figure *to)
{
    struct bench_figure result = {.count = 0};
    for (size_t i = 0; i < of->count; i++)
        bench_add(&result, of->values[i] / to->values[i]);
    return result;
}

static void print_ratio(const char *what, const struct bench_figure *r, bool judged)
{
    printf("                 %-42s %5.2f (%.2f .. %.2f)%s\n", what, bench_median(r), bench_min(r), bench_max(r),
           !judged ? "" : bench_max(r) >= 1 ? ": not slower" : ": SLOWER");
}

static void print_rates(const char *family, unsigned batch, const struct cost costs[WAYS])
{
    for (int way = 0; way < WAYS; way++)
        printf("%-9s %5u  %-16s %8.1f %8.1f ..%7.1f %9.1f %8.1f ..%8.1f %10.0f\n", way ? "" : family, batch, way_names[way],
               bench_median(&costs[way].post), bench_min(&costs[way].post), bench_max(&costs[way].post),
               bench_median(&costs[way].all), bench_min(&costs[way].all), bench_max(&costs[way].all),
               1e9 / bench_median(&costs[way].all));
    const struct bench_figure all = ratio(&costs[RAW].all, &costs[OURS].all), post = ratio(&costs[RAW].post, &costs[OURS].post),
                              gain = ratio(&costs[COPYING].post, &costs[OURS].post);
    print_ratio("speed to the bare loop", &all, true);
    print_ratio("speed of posting to the bare loop", &post, true);
    print_ratio("speed of posting to malloc and copy", &gain, false);
}

static void rates(enum zc_family family, const char *name)
{
    static struct cost costs[BATCHES][WAYS];
    struct pair pair;
    memset(costs, 0, sizeof costs);
    pair_open(&pair, &(struct pair_options){.family = family, .send_wr = DEPTH, .sge = 1, .inline_bytes = BYTES});
    if (settings.realtime && !bench_realtime())
        bench_fail("SCHED_FIFO is refused");
    for (unsigned round = 0; round < settings.rounds; round++)
        for (unsigned b = 0; b < BATCHES; b++)
            for (int way = 0; way < WAYS; way++)    /* who begins changes from round to round */
                measure(&pair, (enum way)((way + (int)round) % WAYS), batches[b], &costs[b][(way + (int)round) % WAYS]);
    for (unsigned b = 0; b < BATCHES; b++)
        print_rates(name, batches[b], costs[b]);
    pair_close(&pair);
}

/* --- sending: inline, registered, inline with a copy ---------------------------------------------------------------------------- */

enum sending { INLINE, REGISTERED, INLINE_COPIED, SENDINGS };
static const char *const sending_names[] = {"inline", "registered", "inline, copied first"};
static const uint32_t sizes[] = {64, 512, 4096};
enum { SIZES = sizeof sizes / sizeof sizes[0], SENDS = 16 };

static void post_receives(struct pair *pair, uint32_t length)
{
    struct ibv_recv_wr wrs[SENDS];
    struct ibv_sge sges[SENDS];
    for (unsigned i = 0; i < SENDS; i++) {
        sges[i] = pair_sge(pair, 1, i * 4096, length);
        zc_wr_recv(&wrs[i], i, &sges[i], 1);
    }
    zc_wr_link_recv(wrs, SENDS);
    if (zc_post_recv(pair->qp[1], wrs, NULL, NULL) != 0)
        bench_fail("receives were refused");
}

static void post_sends(struct pair *pair, enum sending how, uint32_t length)
{
    static uint8_t copies[SENDS][4096];
    struct ibv_send_wr wrs[SENDS];
    struct ibv_sge sges[SENDS];
    for (unsigned i = 0; i < SENDS; i++) {
        const unsigned flags = i + 1 == SENDS ? IBV_SEND_SIGNALED : 0;
        const uint8_t *data = pair->memory[0] + i * 4096;
        if (how == INLINE_COPIED)
            data = memcpy(copies[i], data, length);
        sges[i] = pair_sge(pair, 0, i * 4096, length);
        if (how == REGISTERED)
            zc_wr_send(&wrs[i], i, &sges[i], 1, flags);
        else
            zc_wr_send_inline(&wrs[i], i, &sges[i], data, length, flags);
    }
    zc_wr_link_send(wrs, SENDS);
    if (zc_sender_post(&pair->sender[0], wrs, NULL, NULL) != 0)
        bench_fail("sends were refused");
}

static void take(const struct pair *pair, int side, unsigned count)
{
    struct ibv_wc wcs[SENDS];
    while (count > 0) {
        const int got = zc_poll(&pair->poller[side], SENDS, wcs);
        for (int i = 0; i < got; i++)
            if (wcs[i].status != IBV_WC_SUCCESS)
                bench_fail("%s", ibv_wc_status_str(wcs[i].status));
        count -= got > 0 ? (unsigned)got : 0;
    }
}

/* Posting by itself is what the caller's thread pays; the whole is until the last message has been received. */
static void measure_sends(struct pair *pair, enum sending how, uint32_t length, struct bench_figure *post, struct bench_figure *all)
{
    const uint64_t begin = zc_now_ns(), end = begin + (uint64_t)(settings.window_s * 1e9);
    uint64_t posting = 0, now = begin, sent = 0;
    for (; now < end; sent += SENDS) {
        post_receives(pair, length);
        const uint64_t before = zc_now_ns();
        post_sends(pair, how, length);
        posting += zc_now_ns() - before;
        take(pair, 0, 1);
        take(pair, 1, SENDS);
        now = zc_now_ns();
    }
    bench_add(post, (double)posting / (double)sent);
    bench_add(all, (double)(now - begin) / (double)sent);
}

static uint32_t largest_inline(void)
{
    for (uint32_t bytes_asked = 4096; bytes_asked >= 64; bytes_asked /= 2) {
        struct ibv_device **const list = ibv_get_device_list(NULL);
        struct ibv_context *const context = list && list[0] ? ibv_open_device(list[0]) : NULL;
        struct ibv_pd *const pd = context ? ibv_alloc_pd(context) : NULL;
        struct ibv_cq *const cq = pd ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
        struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
                                        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
                                                .max_inline_data = bytes_asked}};
        struct ibv_qp *const qp = cq ? ibv_create_qp(pd, &attr) : NULL;
        const bool granted = qp != NULL;
        if (qp)
            ibv_destroy_qp(qp);
        if (cq)
            ibv_destroy_cq(cq);
        if (pd)
            ibv_dealloc_pd(pd);
        if (context)
            ibv_close_device(context);
        ibv_free_device_list(list);
        if (granted)
            return bytes_asked;
    }
    return 0;
}

static void sends(void)
{
    static struct bench_figure post[SIZES][SENDINGS], all[SIZES][SENDINGS];
    struct pair pair;
    const uint32_t most = largest_inline();
    pair_open(&pair, &(struct pair_options){.family = ZC_FAMILY_BASIC, .send_wr = SENDS, .recv_wr = SENDS, .sge = 1, .inline_bytes = most});
    for (unsigned round = 0; round < settings.rounds; round++)
        for (unsigned s = 0; s < SIZES; s++)
            for (unsigned how = 0; how < SENDINGS; how++)
                if (how == REGISTERED || sizes[s] <= most)
                    measure_sends(&pair, (enum sending)how, sizes[s], &post[s][how], &all[s][how]);
    printf("\n%u sends a doorbell, basic verbs; the device takes %u inline bytes\n", SENDS, most);
    printf("bytes  %-22s %9s %21s %9s %21s\n", "", "ns posting", "lowest .. highest", "ns in all", "lowest .. highest");
    for (unsigned s = 0; s < SIZES; s++)
        for (unsigned how = 0; how < SENDINGS; how++)
            if (post[s][how].count)
                printf("%5u  %-22s %10.1f %9.1f ..%9.1f %10.1f %9.1f ..%9.1f\n", sizes[s], sending_names[how],
                       bench_median(&post[s][how]), bench_min(&post[s][how]), bench_max(&post[s][how]), bench_median(&all[s][how]),
                       bench_min(&all[s][how]), bench_max(&all[s][how]));
            else
                printf("%5u  %-22s          - (more than the device takes inline)\n", sizes[s], sending_names[how]);
    pair_close(&pair);
}

/* --- instructions ----------------------------------------------------------------------------------------------------------------- */

static int null_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) { (void)qp, (void)wr, (void)bad; return 0; }
static void null_start(struct ibv_qp_ex *ex) { (void)ex; }
static int null_complete(struct ibv_qp_ex *ex) { (void)ex; return 0; }
static void null_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address) { (void)ex, (void)rkey, (void)address; }
static void null_inline(struct ibv_qp_ex *ex, void *data, size_t length) { (void)ex, (void)data, (void)length; }

void count_here(struct pair *pair, int (*post)(struct pair *pair, unsigned batch), unsigned batch) __attribute__((noinline));
void count_here(struct pair *pair, int (*post)(struct pair *pair, unsigned batch), unsigned batch)
{
    for (unsigned i = 0; i < COUNTED; i++)
        post(pair, batch);
}

/* `--count WAY:EXTENDED:BATCH`, under callgrind. */
static int count(const char *what)
{
    static struct ibv_context context = {.ops = {.post_send = null_post}};
    static struct ibv_qp qp = {.context = &context, .qp_type = IBV_QPT_RC};
    static struct ibv_qp_ex ex = {.wr_start = null_start, .wr_complete = null_complete, .wr_abort = null_start,
                                  .wr_rdma_write = null_write, .wr_set_inline_data = null_inline};
    static struct ibv_mr mr;
    unsigned way, extended, batch;
    if (sscanf(what, "%u:%u:%u", &way, &extended, &batch) != 3 || way >= WAYS || batch > BATCH_MAX)
        bench_fail("--count WAY:EXTENDED:BATCH");
    struct pair pair = {.qp = {&qp}, .mr = {&mr, &mr}};
    pair.sender[0] = (struct zc_sender){.qp = &qp, .ex = extended ? &ex : NULL, .max_inline_bytes = BYTES, .max_sge = 1};
    count_here(&pair, method_of(&pair, (enum way)way).post, batch);
    return 0;
}

/* A WR; negative: callgrind did not say. */
static double instructions(enum way way, bool extended, unsigned batch)
{
    char command[4400], line[256], self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    double collected = -1;
    if (length <= 0)
        return -1;
    self[length] = '\0';
    snprintf(command, sizeof command, "exec env -u LD_PRELOAD valgrind --tool=callgrind --collect-atstart=no "
             "--toggle-collect=count_here --callgrind-out-file=/dev/null '%s' --count %d:%d:%u 2>&1", self, way, extended, batch);
    FILE *const out = popen(command, "r");
    while (out && fgets(line, sizeof line, out))
        if (strstr(line, "Collected :"))
            collected = strtod(strstr(line, "Collected :") + strlen("Collected :"), NULL);
    return out && pclose(out) == 0 ? collected / (COUNTED * batch) : -1;
}

static void print_instructions(void)
{
    printf("\ninstructions a WR, the provider doing nothing (callgrind); goal: at most %d above the bare loop\n", INSTRUCTIONS_GOAL);
    for (unsigned extended = 0; extended < 2; extended++)
        for (unsigned b = 0; b < BATCHES; b++) {
            double n[WAYS];
            for (int way = 0; way < WAYS; way++)
                n[way] = instructions((enum way)way, extended, batches[b]);
            if (n[RAW] < 0 || n[OURS] < 0) {
                printf("not counted: valgrind is missing\n");
                return;
            }
            printf("%-9s %5u  bare loop %6.1f   post.h %6.1f (%+.1f: %s)   malloc and copy %7.1f\n", extended ? "extended" : "basic",
                   batches[b], n[RAW], n[OURS], n[OURS] - n[RAW], n[OURS] - n[RAW] <= INSTRUCTIONS_GOAL ? "reached" : "MISSED",
                   n[COPYING]);
        }
}

/* --- the program ------------------------------------------------------------------------------------------------------------------ */

static void parse(int argc, char **argv)
{
    static const struct option longs[] = {
        {"rounds", required_argument, NULL, 'r'}, {"window", required_argument, NULL, 'w'}, {"realtime", no_argument, NULL, 'R'},
        {"no-instructions", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;)
        switch (option) {
        case 'r': settings.rounds = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'w': settings.window_s = strtod(optarg, NULL); break;
        case 'R': settings.realtime = true; break;
        case 'n': settings.instructions = false; break;
        default: bench_fail("usage: post [--rounds N] [--window SECONDS] [--realtime] [--no-instructions]");
        }
    if (settings.rounds < 5 || settings.rounds > BENCH_ROUNDS_MAX || settings.window_s <= 0)
        bench_fail("--rounds 5 to %d, --window above 0", BENCH_ROUNDS_MAX);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--count") == 0)
        return count(argv[2]);
    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("post: inline WRITEs of %d bytes, each signaled and polled, at most %d in flight, %u rounds of %g s each, %ld CPUs,\n"
           "load average %.1f%s\n\n", BYTES, DEPTH, settings.rounds, settings.window_s, sysconf(_SC_NPROCESSORS_ONLN), bench_load(),
           settings.realtime ? ", SCHED_FIFO" : "");
    printf("family    batch  %-16s %8s %18s %9s %19s %10s\n", "", "ns post", "lowest .. highest", "ns all", "lowest .. highest",
           "a second");
    rates(ZC_FAMILY_BASIC, "basic");
    rates(ZC_FAMILY_EXTENDED, "extended");
    sends();
    if (settings.instructions)
        print_instructions();
    return 0;
}
