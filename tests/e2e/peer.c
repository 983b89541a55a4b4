/* e2e_peer: the other end of a session, behaving badly on purpose. The end-to-end tests start it against zcrdmad, on the software
 * device (LD_PRELOAD) and on rxe alike. Every line that it prints is flushed; tests wait for them. See usage() for its parts. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum { TIMEOUT_MS = 20000, REGION_BYTES = 4096, PRIVATE_BYTES = 56 };

struct link {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct zc_peer_message *message;    /* is sent */
    struct zc_peer_welcome *welcome;    /* is received, whatever it is */
    uint8_t *data;
};

static void usage(void)
{
    fputs("usage: e2e_peer listen PORT BEHAVIOUR | e2e_peer connect HOST PORT BEHAVIOUR\n"
          "listen:  silent    never answers a connection request\n"
          "         version   refuses: speaks the next version only\n"
          "         refuse    refuses without saying why\n"
          "         foreign   accepts with private data of another protocol\n"
          "         mute      accepts and never says WELCOME\n"
          "         garbage   accepts and answers HELLO with 64 bytes of garbage\n"
          "connect: hold      is welcomed, then idles until it is disconnected\n"
          "         version   asks in the next version\n"
          "         foreign   asks with private data of another protocol\n"
          "         empty     asks without private data\n"
          "         nohello   connects and never says HELLO\n"
          "         garbage   connects and says 64 bytes of garbage\n"
          "         read      is welcomed and reads one page of the region\n"
          "         beyond    is welcomed and reads one byte behind the region\n"
          "         write     is welcomed and writes into the region\n", stderr);
    exit(2);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void die(const char *what)
{
    fprintf(stderr, "e2e_peer: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The next event, or exit 1 after the deadline. The caller acknowledges it. */
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int timeout_ms)
{
    struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;
    errno = ETIMEDOUT;
    if (poll(&ready, 1, timeout_ms) != 1 || rdma_get_cm_event(channel, &event))
        die("no rdma_cm event");
    return event;
}

static void expect_event(struct link *link, enum rdma_cm_event_type wanted, int timeout_ms)
{
    struct rdma_cm_event *event = next_event(link->channel, timeout_ms);
    if (event->event != wanted) {
        fprintf(stderr, "e2e_peer: %s (status %d) instead of %s\n", rdma_event_str(event->event), event->status,
                rdma_event_str(wanted));
        exit(1);
    }
    rdma_ack_cm_event(event);
}

static void create_qp(struct link *link)
{
    link->cq = ibv_create_cq(link->id->verbs, 16, NULL, NULL, 0);
    if (!link->cq)
        die("ibv_create_cq");
    struct ibv_qp_init_attr attributes = {
        .send_cq = link->cq, .recv_cq = link->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    if (rdma_create_qp(link->id, NULL, &attributes))
        die("rdma_create_qp");
    uint8_t *page = aligned_alloc(4096, REGION_BYTES);
    if (!page)
        die("aligned_alloc");
    memset(page, 0, REGION_BYTES);
    link->message = (void *)page;
    link->welcome = (void *)(page + 512);
    link->data = page + 1024;
    link->mr = ibv_reg_mr(link->id->pd, page, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (!link->mr)
        die("ibv_reg_mr");
}

static struct ibv_sge sge_of(const struct link *link, void *address, uint32_t length)
{
    return (struct ibv_sge){ .addr = (uintptr_t)address, .length = length, .lkey = link->mr->lkey };
}

static void post_receive(struct link *link)
{
    struct ibv_sge sge = sge_of(link, link->welcome, sizeof *link->welcome);
    struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
    if (ibv_post_recv(link->id->qp, &wr, &bad))
        die("ibv_post_recv");
}

static void send_message(struct link *link)
{
    struct ibv_sge sge = sge_of(link, link->message, sizeof *link->message);
    struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
    if (ibv_post_send(link->id->qp, &wr, &bad))
        die("ibv_post_send");
}

/* The completion with this WR id; others are dropped. */
static enum ibv_wc_status completion_of(struct link *link, uint64_t wr_id)
{
    struct ibv_wc wc;
    for (int waited_ms = 0; waited_ms < TIMEOUT_MS; waited_ms++) {
        while (ibv_poll_cq(link->cq, 1, &wc) == 1)
            if (wc.wr_id == wr_id)
                return wc.status;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    errno = ETIMEDOUT;
    die("no completion");
    return IBV_WC_GENERAL_ERR;
}

/* --- listen --- */

static void accept_with(struct link *link, const struct zc_peer_answer *answer)
{
    create_qp(link);
    post_receive(link);
    struct rdma_conn_param parameters = {
        .private_data = answer, .private_data_len = sizeof *answer, .responder_resources = 1, .initiator_depth = 1,
    };
    if (rdma_accept(link->id, &parameters))
        die("rdma_accept");
}

static void answer_request(struct link *link, const char *behaviour)
{
    struct zc_peer_answer answer = { .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .status = ZC_PEER_OK };
    if (!strcmp(behaviour, "silent")) {
        pause();
    } else if (!strcmp(behaviour, "version")) {
        answer.version = ZC_PEER_VERSION + 1;
        answer.status = ZC_PEER_BAD_VERSION;
        if (rdma_reject(link->id, &answer, sizeof answer))
            die("rdma_reject");
    } else if (!strcmp(behaviour, "refuse")) {
        if (rdma_reject(link->id, NULL, 0))
            die("rdma_reject");
    } else if (!strcmp(behaviour, "foreign")) {
        memset(&answer, 'x', sizeof answer);
        accept_with(link, &answer);
    } else if (!strcmp(behaviour, "mute")) {
        accept_with(link, &answer);
    } else if (!strcmp(behaviour, "garbage")) {
        accept_with(link, &answer);
        expect_event(link, RDMA_CM_EVENT_ESTABLISHED, TIMEOUT_MS);
        completion_of(link, 1);
        memset(link->message, 'x', sizeof *link->message);
        send_message(link);
    } else {
        usage();
    }
}

/* One request; what follows is read and acknowledged until a signal ends the program. */
static void listen_and_answer(int port, const char *behaviour)
{
    struct link link = { .channel = rdma_create_event_channel() };
    struct rdma_cm_id *listener;
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    if (!link.channel || rdma_create_id(link.channel, &listener, NULL, RDMA_PS_TCP))
        die("rdma_create_id");
    if (rdma_bind_addr(listener, (struct sockaddr *)&any) || rdma_listen(listener, 8))
        die("rdma_listen");
    say("listening %u", ntohs(rdma_get_src_port(listener)));
    for (;;) {
        struct rdma_cm_event *event = next_event(link.channel, -1);
        bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
        if (request)
            link.id = event->id;
        say("event %s", rdma_event_str(event->event));
        rdma_ack_cm_event(event);
        if (request)
            answer_request(&link, behaviour);
    }
}

/* --- connect --- */

static void resolve(struct link *link, const char *host, const char *port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *address;
    if (getaddrinfo(host, port, &hints, &address))
        die("getaddrinfo");
    link->channel = rdma_create_event_channel();
    if (!link->channel || rdma_create_id(link->channel, &link->id, NULL, RDMA_PS_TCP))
        die("rdma_create_id");
    if (rdma_resolve_addr(link->id, NULL, address->ai_addr, TIMEOUT_MS))
        die("rdma_resolve_addr");
    freeaddrinfo(address);
    expect_event(link, RDMA_CM_EVENT_ADDR_RESOLVED, TIMEOUT_MS);
    if (rdma_resolve_route(link->id, TIMEOUT_MS))
        die("rdma_resolve_route");
    expect_event(link, RDMA_CM_EVENT_ROUTE_RESOLVED, TIMEOUT_MS);
}

/* True when established; a refusal is printed. */
static bool request(struct link *link, const char *behaviour)
{
    uint8_t data[PRIVATE_BYTES] = { 0 };
    struct zc_peer_request asked = { .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .session = (uint64_t)getpid() << 32 | 1u,
                                     .qp_count = 1 };
    if (!strcmp(behaviour, "version"))
        asked.version = ZC_PEER_VERSION + 1;
    memcpy(data, &asked, sizeof asked);
    if (!strcmp(behaviour, "foreign"))
        memset(data, 'x', sizeof data);
    bool empty = !strcmp(behaviour, "empty");
    struct rdma_conn_param parameters = {
        .private_data = empty ? NULL : data, .private_data_len = empty ? 0 : sizeof asked,
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 6, .rnr_retry_count = 6,
    };
    if (rdma_connect(link->id, &parameters))
        die("rdma_connect");
    struct rdma_cm_event *event = next_event(link->channel, TIMEOUT_MS);
    bool established = event->event == RDMA_CM_EVENT_ESTABLISHED;
    if (established) {
        say("established");
    } else {
        struct zc_peer_answer answer = { 0 };
        if (event->param.conn.private_data && event->param.conn.private_data_len >= sizeof answer)
            memcpy(&answer, event->param.conn.private_data, sizeof answer);
        say("%s magic=%08x version=%u status=%u", rdma_event_str(event->event), answer.magic, answer.version, answer.status);
    }
    rdma_ack_cm_event(event);
    return established;
}

static void hello(struct link *link, const char *behaviour)
{
    *link->message = (struct zc_peer_message){ .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = ZC_PEER_HELLO,
                                                  .session = (uint64_t)getpid() << 32 | 1u };
    if (!strcmp(behaviour, "garbage"))
        memset(link->message, 'x', sizeof *link->message);
    send_message(link);
}

/* One READ or WRITE of the region as WELCOME described it. */
static void access_region(struct link *link, const char *behaviour)
{
    const struct zc_peer_welcome *welcome = link->welcome;
    bool beyond = !strcmp(behaviour, "beyond"), write = !strcmp(behaviour, "write");
    struct ibv_sge sge = sge_of(link, link->data, beyond ? 1 : 256);
    struct ibv_send_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ }, *bad;
    wr.wr.rdma.remote_addr = welcome->region_address + (beyond ? welcome->region_size : 0);
    wr.wr.rdma.rkey = welcome->rkeys[0];
    if (ibv_post_send(link->id->qp, &wr, &bad))
        die("ibv_post_send");
    say("completion %s", ibv_wc_status_str(completion_of(link, 3)));
}

static void connect_and_misbehave(const char *host, const char *port, const char *behaviour)
{
    struct link link = { 0 };
    resolve(&link, host, port);
    create_qp(&link);
    post_receive(&link);
    if (!request(&link, behaviour))
        return;
    if (strcmp(behaviour, "nohello")) {
        hello(&link, behaviour);
        if (strcmp(behaviour, "garbage")) {
            enum ibv_wc_status status = completion_of(&link, 1);
            say("welcome %s magic=%08x type=%u region=%llu", ibv_wc_status_str(status), link.welcome->magic,
                link.welcome->type, (unsigned long long)link.welcome->region_size);
        }
    }
    if (!strcmp(behaviour, "read") || !strcmp(behaviour, "beyond") || !strcmp(behaviour, "write")) {
        access_region(&link, behaviour);
    } else {
        expect_event(&link, RDMA_CM_EVENT_DISCONNECTED, !strcmp(behaviour, "hold") ? -1 : TIMEOUT_MS);
        say("disconnected");
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "listen"))
        listen_and_answer(atoi(argv[2]), argv[3]);
    else if (argc == 5 && !strcmp(argv[1], "connect"))
        connect_and_misbehave(argv[2], argv[3], argv[4]);
    else
        usage();
    return 0;
}
