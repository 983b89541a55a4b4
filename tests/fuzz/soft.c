/* What arrives at the software device's ports (src/soft): streams from anybody. The first byte chooses how the rest is sent:
 *   0 as it is; 1 as frames of requests behind a valid greeting; 2 as messages of rdma_cm behind one; 3 as answers to a READ and a SEND
 *   that a queue pair of ours has sent to a port of the fuzzer's.
 * In frames an odd number of a queue pair, an odd rkey and an odd address are replaced by real ones, so that inputs get somewhere. The
 * device must keep its guard bytes, end every stream that is over, and serve on. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "wire.h"

enum { MEMORY = 64 << 10, GUARD = 4096, STREAM_MAX = 256 << 10, DEADLINE_MS = 10000 };
enum mode { RAW, FRAMES, CM, ANSWERS, MODES };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr, *read_only;
static uint8_t *memory;             /* guard, memory, guard */
static struct rdma_event_channel *channel;
static int listener;                /* of the port that the fuzzer answers at */
static uint32_t listener_qpn;

static int unix_socket(uint16_t port, struct sockaddr_un *address, socklen_t *length)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1
                          + (size_t)snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "zcsoft/qp/%u", (unsigned)port));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HOLDS(fd >= 0);
    return fd;
}

static void modify(struct ibv_qp_attr attr, int mask)
{
    HOLDS(ibv_modify_qp(qp, &attr, mask) == 0);
}

/* A queue pair that anybody may ask, with receives posted. */
static void connect_qp(void)
{
    struct ibv_sge sge = { .addr = (uintptr_t)memory + GUARD, .length = 4096, .lkey = mr->lkey };
    struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ibv_wc wc[16];
    union ibv_gid gid;
    HOLDS(ibv_query_gid(context, 1, 0, &gid) == 0);
    modify((struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE);
    while (ibv_poll_cq(cq, 16, wc) > 0) {
    }
    modify((struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE
                                 | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC },
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify((struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = listener_qpn, .rq_psn = 0,
                                 .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
                                 .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 1 } } },
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
           | IBV_QP_MIN_RNR_TIMER);
    modify((struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 4 },
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    for (int i = 0; i < 4; i++)
        HOLDS(ibv_post_recv(qp, &receive, &bad) == 0);
}

static void listen_as_peer(void)
{
    struct sockaddr_un address;
    socklen_t length;
    for (uint16_t port = 20000; ; port++) {
        HOLDS(port < 30000);
        listener = unix_socket(port, &address, &length);
        if (bind(listener, (struct sockaddr *)&address, length) == 0) {
            HOLDS(listen(listener, 64) == 0);
            listener_qpn = (uint32_t)port << 8;
            return;
        }
        close(listener);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct sockaddr_in any = { .sin_family = AF_INET };
    static struct rdma_cm_id *id;
    setenv("ZCSOFT_TRANSPORT", "unix", 1);      /* payload on the stream, where it can be forged */
    HOLDS((memory = aligned_alloc(4096, MEMORY + 2 * GUARD)) != NULL);
    struct ibv_device **devices = ibv_get_device_list(NULL);
    HOLDS(devices && devices[0] && (context = ibv_open_device(devices[0])) != NULL);
    ibv_free_device_list(devices);
    HOLDS((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 256, NULL, NULL, 0)));
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
                                     .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };
    HOLDS((qp = ibv_create_qp(pd, &init)) != NULL);
    HOLDS((mr = ibv_reg_mr(pd, memory + GUARD, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
                           | IBV_ACCESS_REMOTE_ATOMIC)) != NULL);
    HOLDS((read_only = ibv_reg_mr(pd, memory, GUARD, IBV_ACCESS_REMOTE_READ)) != NULL);
    HOLDS((channel = rdma_create_event_channel()) && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    HOLDS(rdma_bind_addr(id, (struct sockaddr *)&any) == 0 && rdma_listen(id, 4) == 0);
    listen_as_peer();
    return 0;
}

/* ---- what is sent */

static size_t greeting(uint8_t *to, enum zs_kind kind)
{
    struct zs_hello hello = { .magic = ZS_MAGIC, .version = ZS_WIRE_VERSION, .kind = (uint8_t)kind, .pid = (uint32_t)getpid(),
                              .instance = 1 };
    memcpy(to, &hello, sizeof hello);
    return sizeof hello;
}

/* Frames with their payload; what is missing of the last payload is not sent. */
static size_t frames(const uint8_t *data, size_t size, uint8_t *to)
{
    size_t length = 0;
    while (size >= sizeof(struct zs_frame)) {
        struct zs_frame frame;
        memcpy(&frame, data, sizeof frame);
        if (frame.dst_qpn & 1)
            frame.dst_qpn = qp->qp_num;
        if (frame.rkey & 1)
            frame.rkey = frame.rkey & 2 ? read_only->rkey : mr->rkey;
        if (frame.va & 1)
            frame.va = (uintptr_t)memory + GUARD + (frame.va >> 1) % (MEMORY + GUARD);
        data += sizeof frame;
        size -= sizeof frame;
        const size_t payload = frame.length < size ? frame.length : size;
        if (length + sizeof frame + payload > STREAM_MAX)
            break;
        memcpy(to + length, &frame, sizeof frame);
        memcpy(to + length + sizeof frame, data, payload);
        length += sizeof frame + payload;
        data += payload;
        size -= payload;
    }
    return length;
}

static size_t stream_of(enum mode mode, const uint8_t *data, size_t size, uint8_t *to)
{
    size_t length = 0;
    if (mode == FRAMES || mode == ANSWERS)
        return (length = greeting(to, ZS_KIND_LINK)) + frames(data, size, to + length);
    if (mode == CM)
        length = greeting(to, ZS_KIND_CM);
    memcpy(to + length, data, size);
    return length + size;
}

/* ---- where it goes */

/* What of `events` there is, within the deadline. libFuzzer watches over its time limit with a signal every few seconds, and
 * poll(2) does not go on after one. */
static short wait_for(int fd, short events)
{
    struct pollfd ready = { .fd = fd, .events = events };
    int count;
    do
        count = poll(&ready, 1, DEADLINE_MS);
    while (count < 0 && errno == EINTR);
    HOLDS(count == 1);
    return ready.revents;
}

static int connect_to_device(void)
{
    struct sockaddr_un address;
    socklen_t length;
    int fd = unix_socket((uint16_t)(qp->qp_num >> 8), &address, &length);
    HOLDS(connect(fd, (struct sockaddr *)&address, length) == 0);
    return fd;
}

/* The device comes to us, because it has something to ask. */
static int be_connected_to(void)
{
    struct ibv_sge sge = { .addr = (uintptr_t)memory + GUARD, .length = 8192, .lkey = mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
    struct ibv_send_wr read = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .next = &send,
                                .wr.rdma = { .remote_addr = 4096, .rkey = 1 } }, *bad;
    HOLDS(ibv_post_send(qp, &read, &bad) == 0);
    wait_for(listener, POLLIN);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    HOLDS(fd >= 0);
    return fd;
}

static void send_all(int fd, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        uint8_t away[4096];
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN)
            return;     /* the device has hung up on it */
        if (wait_for(fd, POLLIN | POLLOUT) & POLLIN && recv(fd, away, sizeof away, MSG_DONTWAIT) == 0)
            return;
    }
}

/* The device ends a stream that is over, whatever was on it. */
static void expect_end(int fd)
{
    uint8_t away[65536];
    ssize_t got;
    shutdown(fd, SHUT_WR);
    do {
        wait_for(fd, POLLIN);
        got = recv(fd, away, sizeof away, 0);
    } while (got > 0);
    close(fd);
}

static void refuse_connections(void)
{
    struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;
    while (poll(&ready, 1, 0) == 1 && rdma_get_cm_event(channel, &event) == 0) {
        struct rdma_cm_id *id = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : NULL;
        rdma_ack_cm_event(event);
        if (id) {
            rdma_reject(id, NULL, 0);
            rdma_destroy_id(id);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t stream[STREAM_MAX + 4096];
    if (size < 1 || size > STREAM_MAX)
        return 0;
    const enum mode mode = (enum mode)(data[0] % MODES);
    memset(memory, 0x5a, GUARD);
    memset(memory + GUARD + MEMORY, 0x5a, GUARD);
    connect_qp();
    const int fd = mode == ANSWERS ? be_connected_to() : connect_to_device();
    send_all(fd, stream, stream_of(mode, data + 1, size - 1, stream));
    expect_end(fd);
    refuse_connections();
    for (size_t i = 0; i < GUARD; i++)
        HOLDS(memory[i] == 0x5a && memory[GUARD + MEMORY + i] == 0x5a);
    return 0;
}
