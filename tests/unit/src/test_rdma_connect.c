/* A requester against peers that are no zcrdmad, or a broken one: one clear sentence each, in time, and nothing left over.
 * Runs on the software device under ctest and, unchanged, on rxe in the lab. */
#include "raw_peer.h"

/* What the pretended responder does with the one connection request that it gets. */
enum behaviour {
    SILENT, ACCEPT_BARE, ACCEPT_STATUS, ACCEPT_NO_READS, REJECT_BARE, REJECT_VERSION, REJECT_GOING_AWAY, NO_WELCOME, DISCONNECT,
    WELCOME_EMPTY_REGION, WELCOME_WRAPPING_REGION, BYE_REFUSES, WELCOME_VERSION, GARBAGE, SHORT, BYE,
};

struct pretender {
    enum behaviour behaviour;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    uint16_t port;
    int stop_fd;
    pthread_t thread;
    struct raw_peer peer;       /* the accepted side */
    uint64_t session;
};

static void pretender_message(struct pretender *p)
{
    struct ibv_wc wc;
    struct zc_peer_welcome message = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = ZC_PEER_WELCOME, .session = p->session};
    struct zc_peer_message bye = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = ZC_PEER_BYE, .session = p->session};
    if (!raw_completion(&p->peer, &wc, 3000) || wc.status != IBV_WC_SUCCESS)
        return;     /* HELLO */
    message.region_size = p->behaviour == WELCOME_EMPTY_REGION ? 0 : 4096;
    message.region_address = p->behaviour == WELCOME_WRAPPING_REGION ? UINT64_MAX - 100 : 4096;
    if (p->behaviour == BYE_REFUSES)
        bye.status = ZC_PEER_WRONG_KEY;
    if (p->behaviour == WELCOME_VERSION)
        message.version = 9;
    zc_peer_welcome_swap(&message);
    zc_peer_message_swap(&bye);
    if (p->behaviour == GARBAGE)
        memset(&message, 'x', sizeof(message));
    if (p->behaviour == DISCONNECT) {
        struct pollfd fd = {.fd = p->channel->fd, .events = POLLIN};
        struct zc_cm_event event;
        poll(&fd, 1, 1000);     /* ESTABLISHED: an id that is not, cannot be disconnected */
        zc_cm_event_next(p->channel, &event);
        rdma_disconnect(p->peer.id);
    }
    if (p->behaviour == BYE || p->behaviour == BYE_REFUSES)
        raw_send(&p->peer, &bye, sizeof(bye));
    else if (p->behaviour != DISCONNECT && p->behaviour != NO_WELCOME)
        raw_send(&p->peer, &message, sizeof(message) - (p->behaviour == SHORT));
}

static void pretender_accept(struct pretender *p, uint16_t status)
{
    struct zc_peer_answer answer = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .status = status};
    zc_peer_answer_swap(&answer);
    struct rdma_conn_param param = {.private_data = &answer, .private_data_len = sizeof(answer), .responder_resources = 1,
                                    .initiator_depth = 1, .rnr_retry_count = 6};
    if (p->behaviour == ACCEPT_BARE)
        param.private_data_len = 0;
    if (p->behaviour == ACCEPT_NO_READS)
        param.responder_resources = 0;
    raw_make_qp(&fixture, &p->peer);
    if (rdma_accept(p->peer.id, &param) == 0 && p->behaviour >= NO_WELCOME)
        pretender_message(p);
}

static void pretender_reject(struct pretender *p)
{
    struct zc_peer_answer answer = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .status = ZC_PEER_GOING_AWAY};
    if (p->behaviour == REJECT_VERSION) {
        answer.version = 9;
        answer.status = ZC_PEER_BAD_VERSION;
    }
    zc_peer_answer_swap(&answer);
    rdma_reject(p->peer.id, &answer, p->behaviour == REJECT_BARE ? 0 : sizeof(answer));
}

static void *pretender_thread(void *arg)
{
    struct pretender *p = arg;
    struct pollfd fds[2] = {{.fd = p->channel->fd, .events = POLLIN}, {.fd = p->stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) > 0 && !fds[1].revents) {
        struct zc_cm_event event;
        if (zc_cm_event_next(p->channel, &event) != 1 || event.type != RDMA_CM_EVENT_CONNECT_REQUEST)
            continue;
        struct zc_peer_request request;
        memcpy(&request, event.private_data, sizeof(request));
        zc_peer_request_swap(&request);
        p->session = request.session;
        p->peer.id = event.id;
        zc_cm_id_adopt(event.id);
        if (p->behaviour == REJECT_BARE || p->behaviour == REJECT_VERSION || p->behaviour == REJECT_GOING_AWAY)
            pretender_reject(p);
        else if (p->behaviour != SILENT)
            pretender_accept(p, p->behaviour == ACCEPT_STATUS ? ZC_PEER_NO_MEMORY : ZC_PEER_OK);
    }
    return NULL;
}

static void pretender_start(struct pretender *p, enum behaviour behaviour)
{
    struct zc_error err = {0};
    struct sockaddr_in any = {.sin_family = AF_INET};
    memset(p, 0, sizeof(*p));
    raw_prepare(&fixture, &p->peer);
    p->behaviour = behaviour;
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (zc_cm_channel_create(&p->channel, &err) || zc_cm_id_create(p->channel, NULL, &p->listener, &err))
        fail_msg("pretender: %s", err.message);
    assert_int_equal(rdma_bind_addr(p->listener, (struct sockaddr *)&any), 0);
    assert_int_equal(rdma_listen(p->listener, 4), 0);
    p->port = ntohs(rdma_get_src_port(p->listener));
    pthread_create(&p->thread, NULL, pretender_thread, p);
}

static void pretender_stop(struct pretender *p)
{
    eventfd_write(p->stop_fd, 1);
    pthread_join(p->thread, NULL);
    close(p->stop_fd);
    raw_close(&p->peer);
    zc_cm_id_destroy(p->listener);
    rdma_destroy_event_channel(p->channel);
}

static void assert_answer(enum behaviour behaviour, const char *words)
{
    struct fixture_counts before = fixture_count();
    struct zc_error err = {0};
    struct reader reader;
    struct pretender p;
    pretender_start(&p, behaviour);
    uint64_t started_ns = zc_now_ns();
    int rc = reader_connect(&fixture, zc_device_info(fixture.device)->address, p.port, 1, -1, 1000, &reader, &err);
    uint64_t took_ns = zc_now_ns() - started_ns;
    pretender_stop(&p);
    assert_true(rc < 0);
    if (err.kind != ZC_ERR_PEER || strcmp(err.field, "peer") != 0 || !strstr(err.message, words))
        fail_msg("expected '%s', not: %s", words, err.message);
    if (took_ns > UINT64_C(2000000000))
        fail_msg("'%s' took %llu ms", err.message, (unsigned long long)(took_ns / 1000000));
    fixture_assert_counts(before);
}

static void test_answers(void **state)
{
    (void)state;
    assert_answer(SILENT, "no answer within 1000 ms");
    assert_answer(ACCEPT_BARE, "is not a zcrdmad");
    assert_answer(ACCEPT_STATUS, "accepted and said: it has no memory");
    assert_answer(ACCEPT_NO_READS, "lets no RDMA READ be outstanding");
    assert_answer(REJECT_BARE, "speaks another protocol");
    assert_answer(REJECT_VERSION, "speaks version 9 of the peer protocol, this is 2");
    assert_answer(REJECT_GOING_AWAY, "it is shutting down");
}

static void test_welcomes(void **state)
{
    (void)state;
    assert_answer(NO_WELCOME, "no answer within 1000 ms");
    assert_answer(DISCONNECT, "was lost before its WELCOME: it closed the connection");
    assert_answer(WELCOME_EMPTY_REGION, "a region that cannot exist: 0 bytes");
    assert_answer(WELCOME_WRAPPING_REGION, "a region that cannot exist");
    assert_answer(BYE_REFUSES, "refused: its pre-shared key is another one (key_file)");
    assert_answer(WELCOME_VERSION, "speaks version 9 of the peer protocol, this is 2");
    assert_answer(GARBAGE, "a message that makes no sense");
    assert_answer(SHORT, "a message that makes no sense");
    assert_answer(BYE, "it ended the session");
}

static void *cancel_later(void *arg)
{
    usleep(200000);
    eventfd_write(*(int *)arg, 1);
    return NULL;
}

static void test_cancel_while_waiting(void **state)
{
    (void)state;
    struct fixture_counts before = fixture_count();
    struct zc_error err = {0};
    struct reader reader;
    struct pretender p;
    pthread_t thread;
    int cancel_fd = eventfd(0, EFD_CLOEXEC);
    pretender_start(&p, SILENT);
    pthread_create(&thread, NULL, cancel_later, &cancel_fd);
    uint64_t started_ns = zc_now_ns();
    int rc = reader_connect(&fixture, zc_device_info(fixture.device)->address, p.port, 1, cancel_fd, 20000, &reader, &err);
    assert_int_equal(rc, -ECANCELED);
    assert_int_equal(err.kind, ZC_ERR_CANCELLED);
    assert_true(zc_now_ns() - started_ns < UINT64_C(2000000000));
    pthread_join(thread, NULL);
    close(cancel_fd);
    pretender_stop(&p);
    fixture_assert_counts(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_welcomes), cmocka_unit_test(test_cancel_while_waiting)};
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
