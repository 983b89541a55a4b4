/* What a peer may say to the responder (src/responder.c and its parts), over rdma_cm and SEND/RECV on the software device, both ends in
 * this process. Input: a byte of flags, 24 bytes of private data, then messages, each with a byte of length before it.
 *   flag 1: private data begins with a right magic and version, and asks for one QP     flag 2: so do messages
 *   flag 4: the responder has a key     flag 8: messages are sent without a word of private data
 * Whatever comes, the session ends with its connection, and nothing of it is left. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth.h"
#include "clock.h"
#include "counters.h"
#include "fuzz.h"
#include "peer.h"
#include "responder.h"

static const uint64_t DEADLINE_NS = UINT64_C(15) * 1000000000;
enum { MESSAGES = 8, MESSAGE_MAX = 256, FLAG_REQUEST = 1, FLAG_MESSAGES = 2, FLAG_KEY = 4, FLAG_BARE = 8 };

static struct zc_device *device;
static struct zc_region *region;
static struct zc_responder *responders[2];      /* without and with a key */
static struct rdma_event_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct rdma_cm_id *id;
static uint8_t *memory;

/* ---- the client */

static void make_key(struct zc_key **key)
{
    char path[] = "/tmp/zc-fuzz-key-XXXXXX";
    struct zc_error err = { 0 };
    int fd = mkstemp(path);
    HOLDS(fd >= 0 && write(fd, "0123456789abcdef", 16) == 16 && fchmod(fd, 0600) == 0);
    close(fd);
    HOLDS(zc_key_load(path, key, &err) == 0);
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct zc_error err = { 0 };
    static struct zc_key *key;
    make_key(&key);
    HOLDS(zc_device_open(NULL, &device, &err) == 0);
    HOLDS(zc_region_create(device, 64 << 10, 1, &region, &err) == 0);
    for (int i = 0; i < 2; i++) {
        struct zc_responder_params params = { .device = device, .region = region, .max_sessions = 4, .max_qps_per_session = 4,
                                              .key = i ? key : NULL, .hello_timeout_ms = 5000 };
        HOLDS(zc_responder_create(&params, &responders[i], &err) == 0);
    }
    HOLDS((channel = rdma_create_event_channel()) != NULL);
    HOLDS((pd = ibv_alloc_pd(zc_device_context(device))) && (cq = ibv_create_cq(zc_device_context(device), 64, NULL, NULL, 0)));
    HOLDS((memory = aligned_alloc(4096, 4096)) && (mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE)) != NULL);
    return 0;
}

/* One turn of the responder's loop; true if an event of rdma_cm is waiting. */
static bool turn(struct zc_responder *responder, uint64_t begun_ns)
{
    struct pollfd fds[2] = { { .fd = zc_responder_fd(responder), .events = POLLIN }, { .fd = channel->fd, .events = POLLIN } };
    HOLDS(zc_now_ns() - begun_ns < DEADLINE_NS);
    if (poll(fds, 2, 1) > 0 && fds[0].revents)
        zc_responder_process(responder);
    return fds[1].revents != 0;
}

static enum rdma_cm_event_type next_event(struct zc_responder *responder)
{
    const uint64_t begun_ns = zc_now_ns();
    struct rdma_cm_event *event;
    while (!turn(responder, begun_ns)) {
    }
    HOLDS(rdma_get_cm_event(channel, &event) == 0);
    const enum rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    return type;
}

static void create_connection(struct zc_responder *responder)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(zc_responder_port(responder)) };
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
                                     .cap = { .max_send_wr = MESSAGES, .max_recv_wr = MESSAGES, .max_send_sge = 1, .max_recv_sge = 1 } };
    HOLDS(inet_pton(AF_INET, zc_device_info(device)->address, &to.sin_addr) == 1);
    HOLDS(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    HOLDS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) == 0);
    HOLDS(next_event(responder) == RDMA_CM_EVENT_ADDR_RESOLVED);
    HOLDS(rdma_resolve_route(id, 2000) == 0 && next_event(responder) == RDMA_CM_EVENT_ROUTE_RESOLVED);
    HOLDS(rdma_create_qp(id, pd, &init) == 0);
    struct ibv_sge sge = { .addr = (uintptr_t)memory + 2048, .length = 2048, .lkey = mr->lkey };
    struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad;
    for (int i = 0; i < MESSAGES; i++)
        HOLDS(ibv_post_recv(id->qp, &receive, &bad) == 0);
}

static bool request(struct zc_responder *responder, uint8_t flags, const void *private_data)
{
    struct zc_peer_request asked;
    memcpy(&asked, private_data, sizeof asked);
    if (flags & FLAG_REQUEST) {
        asked.magic = ZC_PEER_MAGIC;
        asked.version = ZC_PEER_VERSION;
        asked.flags = asked.reserved = asked.qp_index = 0;
        asked.qp_count = 1;
        zc_peer_request_swap(&asked);
    }
    struct rdma_conn_param param = { .private_data = flags & FLAG_BARE ? NULL : &asked,
                                     .private_data_len = flags & FLAG_BARE ? 0 : sizeof asked, .initiator_depth = 1,
                                     .responder_resources = 1, .retry_count = 1, .rnr_retry_count = 1 };
    HOLDS(rdma_connect(id, &param) == 0);
    return next_event(responder) == RDMA_CM_EVENT_ESTABLISHED;
}

/* Posts it and waits for its end: sent, or flushed because the responder has had enough. */
static bool say(struct zc_responder *responder, uint8_t flags, const uint8_t *bytes, size_t length)
{
    struct zc_peer_message message;
    struct ibv_wc wc;
    const uint64_t begun_ns = zc_now_ns();
    memcpy(memory, bytes, length);
    if (flags & FLAG_MESSAGES && length >= 8) {
        memcpy(&message, memory, 8);
        message.magic = ZC_PEER_MAGIC;
        message.version = ZC_PEER_VERSION;
        message.type %= 8;
        memcpy(memory, &message, 8);
    }
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = (uint32_t)length, .lkey = mr->lkey };
    struct ibv_send_wr send = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
    if (ibv_post_send(id->qp, &send, &bad) != 0)
        return false;
    for (;;) {
        const int got = ibv_poll_cq(cq, 1, &wc);
        HOLDS(got >= 0);
        if (got == 1 && wc.wr_id == 1)
            return wc.status == IBV_WC_SUCCESS;
        if (got == 0 && turn(responder, begun_ns))
            return false;       /* disconnected: what is on its way gets no answer any more */
    }
}

static void converse(struct zc_responder *responder, uint8_t flags, const uint8_t *data, size_t size)
{
    for (int i = 0; i < MESSAGES && size > 1; i++) {
        size_t length = data[0] < size - 1 ? data[0] : size - 1;
        if (!say(responder, flags, data + 1, length))
            return;
        data += 1 + length;
        size -= 1 + length;
    }
}

static void expect_nothing_left(struct zc_responder *responder, uint64_t qps, uint64_t cm_ids)
{
    const uint64_t begun_ns = zc_now_ns();
    while (zc_responder_sessions(responder, NULL, 0) > 0 || atomic_load(&zc_counters.qps) != qps
           || atomic_load(&zc_counters.cm_ids) != cm_ids) {
        if (turn(responder, begun_ns)) {
            struct rdma_cm_event *event;
            HOLDS(rdma_get_cm_event(channel, &event) == 0);
            rdma_ack_cm_event(event);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ibv_wc wc;
    const size_t head = 1 + sizeof(struct zc_peer_request);
    if (size < head)
        return 0;
    struct zc_responder *responder = responders[data[0] & FLAG_KEY ? 1 : 0];
    const uint64_t qps = atomic_load(&zc_counters.qps), cm_ids = atomic_load(&zc_counters.cm_ids);
    create_connection(responder);
    if (request(responder, data[0], data + 1))
        converse(responder, data[0], data + head, size - head);
    rdma_disconnect(id);
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
    while (ibv_poll_cq(cq, 1, &wc) > 0) {
    }
    expect_nothing_left(responder, qps, cm_ids);
    return 0;
}
