/* A peer that speaks rdma_cm and verbs but keeps to no protocol: what a hostile or a foreign program does to us. */
#ifndef RAW_PEER_H
#define RAW_PEER_H

#include <arpa/inet.h>
#include <netdb.h>

#include "cm.h"
#include "peer.h"
#include "rdma_fixture.h"

enum { RAW_BUFFER = 4096, RAW_HALF = RAW_BUFFER / 2 };

struct raw_peer {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct zc_completion *completion;
    struct zc_buffer buffer;            /* sends from the first half, receives in the second */
    struct ibv_mr *mr;
    struct zc_cm_event event;           /* the last one */
};

static inline bool raw_event(struct raw_peer *peer, unsigned timeout_ms)
{
    struct pollfd fd = {.fd = peer->channel->fd, .events = POLLIN};
    if (poll(&fd, 1, (int)timeout_ms) != 1)
        return false;
    return zc_cm_event_next(peer->channel, &peer->event) == 1;
}

static inline void raw_expect(struct raw_peer *peer, enum rdma_cm_event_type type, unsigned timeout_ms)
{
    if (!raw_event(peer, timeout_ms))
        fail_msg("no %s within %u ms", rdma_event_str(type), timeout_ms);
    if (peer->event.type != type)
        fail_msg("%s (status %d) instead of %s", rdma_event_str(peer->event.type), peer->event.status, rdma_event_str(type));
}

static inline void raw_prepare(struct fixture *f, struct raw_peer *peer)
{
    struct zc_error err = {0};
    memset(peer, 0, sizeof(*peer));
    if (zc_cm_channel_create(&peer->channel, &err) || zc_completion_create(f->device, 32, &peer->completion, &err) ||
        zc_buffer_create(RAW_BUFFER, -1, &peer->buffer, &err) ||
        zc_mr_register(f->device, peer->buffer.address, RAW_BUFFER, IBV_ACCESS_LOCAL_WRITE, "a raw peer", &peer->mr, &err))
        fail_msg("raw peer: %s", err.message);
}

static inline void raw_make_qp(struct fixture *f, struct raw_peer *peer)
{
    struct zc_error err = {0};
    struct ibv_cq *cq = zc_completion_cq(peer->completion);
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
                                    .cap = {.max_send_wr = 8, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    if (zc_cm_qp_create(f->device, peer->id, &attr, &err))
        fail_msg("raw peer: %s", err.message);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)peer->buffer.address + RAW_HALF, .length = RAW_HALF, .lkey = peer->mr->lkey};
    struct ibv_recv_wr wr;
    zc_wr_recv(&wr, 99, &sge, 1);
    assert_int_equal(zc_post_recv(peer->id->qp, &wr, NULL, NULL), 0);
}

/* Up to the connection request; its answer is the next event. */
static inline void raw_request(struct fixture *f, struct raw_peer *peer, const void *private_data, uint8_t length)
{
    struct zc_error err = {0};
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    char service[8];
    snprintf(service, sizeof(service), "%u", f->port);
    raw_prepare(f, peer);
    if (zc_cm_id_create(peer->channel, NULL, &peer->id, &err))
        fail_msg("raw peer: %s", err.message);
    assert_int_equal(getaddrinfo(zc_device_info(f->device)->address, service, &hints, &found), 0);
    assert_int_equal(rdma_resolve_addr(peer->id, NULL, found->ai_addr, 2000), 0);
    freeaddrinfo(found);
    raw_expect(peer, RDMA_CM_EVENT_ADDR_RESOLVED, 3000);
    assert_int_equal(rdma_resolve_route(peer->id, 2000), 0);
    raw_expect(peer, RDMA_CM_EVENT_ROUTE_RESOLVED, 3000);
    raw_make_qp(f, peer);
    struct rdma_conn_param param = {.private_data = private_data, .private_data_len = length, .initiator_depth = 1,
                                    .responder_resources = 1, .retry_count = 6, .rnr_retry_count = 6};
    assert_int_equal(rdma_connect(peer->id, &param), 0);
}

static inline void raw_close(struct raw_peer *peer)
{
    if (peer->id)
        rdma_disconnect(peer->id);
    zc_cm_id_destroy(peer->id);
    zc_mr_deregister(peer->mr);
    zc_buffer_destroy(&peer->buffer);
    zc_completion_destroy(peer->completion);
    rdma_destroy_event_channel(peer->channel);
}

static inline int raw_send(struct raw_peer *peer, const void *bytes, uint32_t length)
{
    if (memcmp(peer->buffer.address, bytes, length) != 0)   /* the same message may still be on its way */
        memcpy(peer->buffer.address, bytes, length);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)peer->buffer.address, .length = length, .lkey = peer->mr->lkey};
    struct ibv_send_wr wr;
    zc_wr_send(&wr, 7, &sge, 1, IBV_SEND_SIGNALED);
    return zc_post_send(peer->id->qp, &wr, NULL, NULL);
}

/* Any completion within the time; false if none came. */
static inline bool raw_completion(struct raw_peer *peer, struct ibv_wc *wc, unsigned timeout_ms)
{
    uint64_t deadline_ns = zc_now_ns() + timeout_ms * UINT64_C(1000000);
    for (;;) {
        zc_completion_rearm(peer->completion);
        if (zc_completion_poll(peer->completion, 1, wc) == 1)
            return true;
        if (zc_completion_wait(peer->completion, -1, deadline_ns) <= 0)
            return false;
    }
}

/* Any message into `bytes`: how long it is, 0 if none came within the time. */
static inline uint32_t raw_hear(struct raw_peer *peer, void *bytes, size_t size, unsigned timeout_ms)
{
    struct ibv_wc wc;
    do
        if (!raw_completion(peer, &wc, timeout_ms))
            return 0;
    while (wc.wr_id != 99);
    if (wc.status != IBV_WC_SUCCESS)
        return 0;
    uint8_t *received = (uint8_t *)peer->buffer.address + RAW_HALF;
    memcpy(bytes, received, wc.byte_len < size ? wc.byte_len : size);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)received, .length = RAW_HALF, .lkey = peer->mr->lkey};
    struct ibv_recv_wr wr;
    zc_wr_recv(&wr, 99, &sge, 1);
    zc_post_recv(peer->id->qp, &wr, NULL, NULL);
    return wc.byte_len;
}

/* REJECTED stands for DISCONNECTED where the responder ended the session before the CM's last message (RTU) had reached it. */
static inline void raw_expect_end(struct raw_peer *peer)
{
    if (!raw_event(peer, 5000) || (peer->event.type != RDMA_CM_EVENT_DISCONNECTED && peer->event.type != RDMA_CM_EVENT_REJECTED))
        fail_msg("not disconnected: %s", rdma_event_str(peer->event.type));
    raw_close(peer);
}

static inline struct zc_peer_request raw_hello_request(uint64_t session, uint16_t qp_index, uint16_t qp_count)
{
    struct zc_peer_request request = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .session = session, .qp_index = qp_index,
                                      .qp_count = qp_count};
    zc_peer_request_swap(&request);
    return request;
}

/* Connected as QP `qp_index` of that session. */
static inline void raw_connect(struct fixture *f, struct raw_peer *peer, uint64_t session, uint16_t qp_index, uint16_t qp_count)
{
    struct zc_peer_request request = raw_hello_request(session, qp_index, qp_count);
    raw_request(f, peer, &request, sizeof(request));
    raw_expect(peer, RDMA_CM_EVENT_ESTABLISHED, 5000);
}

static inline struct zc_peer_message raw_message(uint64_t session, uint16_t type)
{
    struct zc_peer_message message = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = type, .session = session};
    zc_peer_message_swap(&message);
    return message;
}

#endif
