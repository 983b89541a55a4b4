/* Scripted faults and the NIC model. The environment is read once a process, so every case runs in a child of its own,
 * made before the device exists. */
#include <dlfcn.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

static const enum ibv_wr_opcode READ = IBV_WR_RDMA_READ;

/* Runs the body in a child under one variable; `said` (4096 bytes) gets its stderr. The child's exit status. */
static int run(const char *name, const char *value, void (*body)(void), char *said)
{
    int status, p[2];
    assert_int_equal(pipe(p), 0);
    pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        if (said)
            dup2(p[1], 2);
        body();
        _exit(0);
    }
    close(p[1]);
    ssize_t n = said ? read(p[0], said, 4095) : 0;
    if (said)
        said[n > 0 ? n : 0] = 0;
    close(p[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const char *model(void)
{
    const char *(*f)(void) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "zcsoft_model");
    memcpy(&f, &symbol, sizeof f);
    return f ? f() : "no such symbol";
}

/* cmocka's assertions exit a child with its status set only if it is a test of its own: so check by hand. */
#define CHECK(what)                                                 \
    do {                                                            \
        if (!(what)) {                                              \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #what);       \
            fflush(stdout);                                         \
            _exit(1);                                               \
        }                                                           \
    } while (0)

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct ends {
    struct rig r;
    struct buffer a, b;
};

static void open_ends(struct ends *e, size_t size, uint8_t rd_atomic)
{
    struct rig_options o = {.timeout = 12, .retry_cnt = 4, .rd_atomic = rd_atomic};
    rig_open(&e->r, &o);
    e->a = rig_buffer(&e->r, size, RIG_ALL);
    e->b = rig_buffer(&e->r, size, RIG_ALL);
    fill(&e->b, 3);
}

static int read_some(struct ends *e, uint64_t id, uint32_t n)
{
    return post_rdma(e->r.qp[0], READ, id, e->a.p, n, e->a.mr->lkey, e->b.p, e->b.mr->rkey);
}

static enum ibv_wc_status status_of(struct ends *e, uint64_t id)
{
    struct ibv_wc wc = rig_wait(e->r.cq[0]);
    CHECK(wc.wr_id == id);
    return wc.status;
}

/* --- faults --------------------------------------------------------------------------------------------------------------- */

static void third_registration(void)
{
    struct ends e;
    CHECK(strcmp(model(), "faults=reg:3=ENOMEM,reg:5+=EFAULT") == 0);
    open_ends(&e, 4096, 0); /* registers two */
    for (int i = 3; i < 8; i++) {
        errno = 0;
        struct ibv_mr *mr = ibv_reg_mr(e.r.pd, e.a.p, 4096, RIG_ALL);
        CHECK(!mr == (i != 4));
        CHECK(mr || errno == (i == 3 ? ENOMEM : EFAULT));
    }
    struct ibv_device_attr attr;
    CHECK(ibv_query_device(e.r.ctx, &attr) == 0 && strstr(attr.fw_ver, "+model"));
}

static void tenth_completion(void)
{
    struct ends e;
    open_ends(&e, 4096, 0);
    for (uint64_t i = 1; i <= 16; i++)
        CHECK(read_some(&e, i, 64) == 0);
    for (uint64_t i = 1; i <= 16; i++)
        CHECK(status_of(&e, i) == (i < 10 ? IBV_WC_SUCCESS : i == 10 ? IBV_WC_REM_OP_ERR : IBV_WC_WR_FLUSH_ERR));
    rig_wait_state(e.r.qp[0], IBV_QPS_ERR);
    CHECK(read_some(&e, 17, 64) == 0 && status_of(&e, 17) == IBV_WC_WR_FLUSH_ERR);
}

static void one_link_lost(void)
{
    struct ends e;
    open_ends(&e, 1 << 20, 0);
    for (uint64_t i = 1; i <= 8; i++)
        CHECK(read_some(&e, i, 1 << 20) == 0);
    for (uint64_t i = 1; i <= 8; i++)
        CHECK(status_of(&e, i) == IBV_WC_SUCCESS);
    CHECK(filled(e.a.p, 1 << 20, 3, 0));
}

static void all_links_lost(void)
{
    struct ends e;
    const char *transport = getenv("ZCSOFT_TRANSPORT");
    bool frames = transport && (strcmp(transport, "unix") == 0 || strcmp(transport, "tcp") == 0);
    open_ends(&e, 4096, 0);
    CHECK(read_some(&e, 1, 64) == 0);
    CHECK(status_of(&e, 1) == (frames ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
}

static enum rdma_cm_event_type event(struct rdma_event_channel *ch)
{
    struct rdma_cm_event *ev = NULL;
    struct pollfd p = {.fd = ch->fd, .events = POLLIN};
    CHECK(poll(&p, 1, RIG_DEADLINE_MS) == 1 && rdma_get_cm_event(ch, &ev) == 0);
    enum rdma_cm_event_type type = ev->event;
    rdma_ack_cm_event(ev);
    return type;
}

/* The first message is the REQ: the listener never hears of it, and the client is not left waiting. */
static void request_lost(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_event_channel *server = rdma_create_event_channel(), *client = rdma_create_event_channel();
    struct rdma_cm_id *listener, *id;
    struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
    struct rdma_conn_param param = {.retry_count = 6, .rnr_retry_count = 6};
    CHECK(!rdma_create_id(server, &listener, NULL, RDMA_PS_TCP) && !rdma_create_id(client, &id, NULL, RDMA_PS_TCP));
    CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&to) && !rdma_listen(listener, 4));
    to.sin_port = rdma_get_src_port(listener);
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) && event(client) == RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(!rdma_resolve_route(id, 1000) && event(client) == RDMA_CM_EVENT_ROUTE_RESOLVED);
    CHECK(!rdma_create_qp(id, NULL, &a) && !rdma_connect(id, &param));
    enum rdma_cm_event_type last = event(client);
    CHECK(last == RDMA_CM_EVENT_UNREACHABLE || last == RDMA_CM_EVENT_REJECTED || last == RDMA_CM_EVENT_CONNECT_ERROR);
    struct pollfd p = {.fd = server->fd, .events = POLLIN};
    CHECK(poll(&p, 1, 0) == 0);
}

static void faults(void **state)
{
    (void)state;
    assert_int_equal(run("ZCSOFT_FAULTS", "reg:3=ENOMEM,reg:5+=EFAULT", third_registration, NULL), 0);
    assert_int_equal(run("ZCSOFT_FAULTS", "wc:10=REM_OP_ERR", tenth_completion, NULL), 0);
    assert_int_equal(run("ZCSOFT_FAULTS", "link:5=drop", one_link_lost, NULL), 0);
    assert_int_equal(run("ZCSOFT_FAULTS", "link:20=drop,link:33=drop", one_link_lost, NULL), 0);
    assert_int_equal(run("ZCSOFT_FAULTS", "link:1+=drop", all_links_lost, NULL), 0);
    assert_int_equal(run("ZCSOFT_FAULTS", "cm:1=drop", request_lost, NULL), 0);
}

static void no_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        CHECK(list && !ibv_open_device(list[0]) && errno == EINVAL);
    }
}

static void malformed(void **state)
{
    static const char *const scripts[] = {"reg", "reg:0=ENOMEM", "reg:3=", "reg:3=WR_FLUSH_ERR", "reg:-1=ENOMEM", "wc:1=SUCCESS",
                                          "wc:1=ENOMEM", "link:5=cut", "disk:1=drop", "reg:3=ENOMEM,", ",", "reg:3x=ENOMEM",
                                          "reg:99999999999999999999=EIO", "reg:=EIO", "wc=1:EIO", "reg:1=EIO;reg:2=EIO"};
    char said[4096];
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        assert_int_equal(run("ZCSOFT_FAULTS", scripts[i], no_device, said), 0);
        assert_non_null(strstr(said, "ZCSOFT_FAULTS"));
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
    }
    assert_int_equal(run("ZCSOFT_RATE", "100G", no_device, said), 0);
    assert_non_null(strstr(said, "ZCSOFT_RATE"));
}

/* --- the model: never faster than asked. How much slower is this machine's affair. ---------------------------------------------- */

static void limited_rate(void)
{
    enum { N = 32, SIZE = 1 << 18 };
    struct ends e;
    open_ends(&e, SIZE, 16);
    CHECK(strcmp(model(), "rate=1000000000") == 0);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < N; i++)
        CHECK(read_some(&e, i, SIZE) == 0);
    for (uint64_t i = 0; i < N; i++)
        CHECK(status_of(&e, i) == IBV_WC_SUCCESS);
    CHECK(now_ns() - start >= (uint64_t)N * SIZE * 8);        /* 67 ms at 1 Gb/s */
    CHECK(filled(e.a.p, SIZE, 3, 0));
}

/* 16 overlap where 16 may be outstanding; with one, each waits for the one before. */
static void latency_overlaps(void)
{
    enum { N = 32, NS = 20000000 };
    for (int depth = 1; depth <= 16; depth += 15) {
        struct ends e;
        open_ends(&e, 4096, (uint8_t)depth);
        uint64_t start = now_ns();
        for (uint64_t i = 0; i < N; i++)
            CHECK(read_some(&e, i, 64) == 0);
        for (uint64_t i = 0; i < N; i++)
            CHECK(status_of(&e, i) == IBV_WC_SUCCESS);
        uint64_t took = now_ns() - start;
        CHECK(took >= (uint64_t)(N / depth) * NS);
        CHECK(depth == 1 || took < (uint64_t)N * NS);
    }
}

static void slow_registration(void)
{
    struct ends e;
    open_ends(&e, 4096, 0);
    uint64_t start = now_ns();
    for (int i = 0; i < 10; i++)
        CHECK(ibv_dereg_mr(ibv_reg_mr(e.r.pd, e.a.p, 4096, RIG_ALL)) == 0);
    CHECK(now_ns() - start >= 20000000);
}

static void nothing(void)
{
    struct ibv_device_attr attr;
    struct rig r;
    rig_open(&r, NULL);
    CHECK(!model());
    CHECK(ibv_query_device(r.ctx, &attr) == 0 && !strstr(attr.fw_ver, "model"));
}

static void nic_model(void **state)
{
    (void)state;
    assert_int_equal(run("ZCSOFT_RATE", "1000000000", limited_rate, NULL), 0);
    assert_int_equal(run("ZCSOFT_LATENCY", "20000000", latency_overlaps, NULL), 0);
    assert_int_equal(run("ZCSOFT_REG_LATENCY", "2000000", slow_registration, NULL), 0);
    assert_int_equal(run("ZCSOFT_RATE", "", nothing, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults),
        cmocka_unit_test(malformed),
        cmocka_unit_test(nic_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
