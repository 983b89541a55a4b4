/* Who gets a session and what it is good for: rkeys that serve one session, the pre-shared key, allowed networks, limits; and
 * sessions that end because nothing is heard of them. Runs on the software device under ctest and, unchanged, on rxe in the lab. */
#include <sys/stat.h>

#include "keeper.h"
#include "raw_peer.h"

static struct fixture fixture;
static char key_path[64];

static struct zc_key *make_key(const char *text)
{
    struct zc_error err = {0};
    struct zc_key *key = NULL;
    FILE *file = fopen(key_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(key_path, 0600);
    if (zc_key_load(key_path, &key, &err))
        fail_msg("key: %s", err.message);
    unlink(key_path);
    return key;
}

static void again_with(struct zc_responder_params params)
{
    fixture_responder_stop(&fixture);
    fixture.warnings = 0;
    fixture_responder_start_with(&fixture, params);
}

static int setup(void **state)
{
    struct zc_error err = {0};
    (void)state;
    snprintf(key_path, sizeof(key_path), "/tmp/zc-session-key-%d", (int)getpid());
    if (zc_device_open(NULL, &fixture.device, &err) ||
        zc_region_create_scoped(fixture.device, FIXTURE_REGION, ZC_PAGES_DEFAULT, ZC_RKEY_SESSION, FIXTURE_SEED, &fixture.region, &err))
        fail_msg("%s", err.message);
    fixture_responder_start(&fixture, 16, 2000);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    fixture_assert_counts((struct fixture_counts){0});
    return 0;
}

static struct fixture_counts counts;

static int count(void **state)
{
    (void)state;
    counts = fixture_count();
    return 0;
}

static int nothing_left(void **state)
{
    (void)state;
    fixture.key = NULL;
    again_with((struct zc_responder_params){0});
    fixture_assert_counts(counts);
    return 0;
}

/* --- rkeys --- */

static enum ibv_wc_status try(struct reader *reader, uint32_t qp, enum ibv_wr_opcode opcode, uint64_t offset, uint32_t rkey)
{
    const struct zc_remote *remote = zc_connection_remote(reader->connection);
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)reader->buffer.address, .length = 8, .lkey = reader->mr->lkey};
    struct ibv_send_wr wr;
    zc_wr_read(&wr, 1, &sge, 1, remote->address + offset, rkey, IBV_SEND_SIGNALED);
    wr.opcode = opcode;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote->address + offset;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 1;
    }
    assert_int_equal(zc_post_send(zc_connection_qp(reader->connection, qp), &wr, NULL, NULL), 0);
    return reader_wait(reader).status;
}

static void assert_reads(struct reader *reader, uint32_t qp)
{
    assert_int_equal(try(reader, qp, IBV_WR_RDMA_READ, 0, zc_connection_rkey(reader->connection, qp)), IBV_WC_SUCCESS);
}

/* Every key but the QP's own, every way but reading, every place but the region: each costs its own session, and no other. */
static void test_what_an_rkey_opens(void **state)
{
    (void)state;
    struct reader owner, thief;
    reader_open(&fixture, 2, &owner);
    assert_int_equal(fixture_count().mws, 2);
    const uint32_t keys[2] = {zc_connection_rkey(owner.connection, 0), zc_connection_rkey(owner.connection, 1)};
    assert_int_not_equal(keys[0], keys[1]);
    const struct {
        enum ibv_wr_opcode opcode;
        uint64_t offset;
        uint32_t rkey;      /* 0: its own; the region has none (0 on rxe), but its lkey is worth a try */
    } tries[] = {
        {IBV_WR_RDMA_READ, 0, keys[0]},
        {IBV_WR_RDMA_READ, 0, keys[1]},
        {IBV_WR_RDMA_READ, 0, zc_region_mr(fixture.region)->lkey},
        {IBV_WR_RDMA_READ, FIXTURE_REGION - 7, 0},
        {IBV_WR_RDMA_READ, (uint64_t)-8, 0},
        {IBV_WR_RDMA_WRITE, 0, 0},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0},
    };
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        reader_open(&fixture, 1, &thief);
        assert_reads(&thief, 0);
        uint32_t rkey = tries[i].rkey ? tries[i].rkey : zc_connection_rkey(thief.connection, 0);
        enum ibv_wc_status status = try(&thief, 0, tries[i].opcode, tries[i].offset, rkey);
        if (status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_REM_INV_REQ_ERR)
            fail_msg("try %zu ended with %s", i, ibv_wc_status_str(status));
        reader_close(&thief);
        assert_reads(&owner, 0);
        assert_reads(&owner, 1);
    }
    size_t bad;
    assert_true(zc_pattern_check(owner.buffer.address, 8, 0, FIXTURE_SEED, &bad));
    reader_close(&owner);
    assert_true(fixture_wait_sessions(&fixture, 0, 5000));
    assert_int_equal(fixture_count().mws, 0);

    reader_open(&fixture, 1, &thief);       /* the key of a session that is gone */
    assert_int_equal(try(&thief, 0, IBV_WR_RDMA_READ, 0, keys[0]), IBV_WC_REM_ACCESS_ERR);
    reader_close(&thief);
    reader_open(&fixture, 2, &owner);       /* on the wrong QP of its own session */
    assert_int_equal(try(&owner, 1, IBV_WR_RDMA_READ, 0, zc_connection_rkey(owner.connection, 0)), IBV_WC_REM_ACCESS_ERR);
    reader_close(&owner);
}

/* --- the key --- */

static void assert_refused(const char *words)
{
    struct zc_error err = {0};
    struct reader reader;
    assert_true(reader_connect(&fixture, zc_device_info(fixture.device)->address, fixture.port, 1, -1, 5000, &reader, &err) < 0);
    if (err.kind != ZC_ERR_PEER || !strstr(err.message, words))
        fail_msg("expected '%s', not: %s", words, err.message);
}

static void test_pre_shared_key(void **state)
{
    (void)state;
    struct zc_key *key = make_key("sixteen bytes and more"), *wrong = make_key("sixteen bytes and some");
    struct reader reader;
    again_with((struct zc_responder_params){.key = key});
    fixture.key = key;
    reader_open(&fixture, 2, &reader);
    assert_reads(&reader, 0);
    assert_reads(&reader, 1);

    fixture.key = wrong;
    for (int i = 0; i < 3; i++)
        assert_refused("refused: its pre-shared key is another one (key_file)");
    assert_true(fixture_wait_sessions(&fixture, 1, 5000));
    assert_int_equal(fixture_stats(&fixture).sessions_refused, 3);
    assert_int_equal(fixture.warnings, 1);      /* logged once an address and minute */
    fixture.key = NULL;
    assert_refused("demands a pre-shared key, and none is configured here (key_file)");
    assert_reads(&reader, 0);
    reader_close(&reader);

    again_with((struct zc_responder_params){0});
    fixture.key = key;                          /* whoever has a key reads from those that ask for none, too */
    reader_open(&fixture, 1, &reader);
    reader_close(&reader);
    fixture_responder_stop(&fixture);
    fixture_responder_start(&fixture, 16, 2000);
    zc_key_destroy(key);
    zc_key_destroy(wrong);
}

static void say(struct raw_peer *peer, uint64_t session, uint16_t type)
{
    struct zc_peer_message message = raw_message(session, type);
    assert_int_equal(raw_send(peer, &message, sizeof(message)), 0);
}

/* HELLO, and the CHALLENGE that comes; never more than that. */
static struct zc_peer_message challenge(struct raw_peer *peer, uint64_t session)
{
    struct zc_peer_message heard;
    raw_connect(&fixture, peer, session, 0, 1);
    say(peer, session, ZC_PEER_HELLO);
    assert_int_equal(raw_hear(peer, &heard, sizeof(heard), 5000), sizeof(heard));
    zc_peer_message_swap(&heard);
    assert_int_equal(heard.type, ZC_PEER_CHALLENGE);
    return heard;
}

static void prove(struct raw_peer *peer, uint64_t session, const uint8_t mac[ZC_PEER_PROOF_BYTES])
{
    struct zc_peer_message message = raw_message(session, ZC_PEER_PROOF);
    memcpy(message.proof, mac, sizeof(message.proof));
    assert_int_equal(raw_send(peer, &message, sizeof(message)), 0);
}

/* The right answer to one CHALLENGE is the wrong one to the next, although everything that the peer chooses is the same. */
static void test_proof_used_again(void **state)
{
    (void)state;
    struct zc_key *key = make_key("sixteen bytes and more");
    struct raw_peer peer;
    struct zc_peer_message heard;
    struct auth_session auth = {.session = 6};
    uint8_t mac[ZC_PEER_PROOF_BYTES];
    again_with((struct zc_responder_params){.key = key});
    heard = challenge(&peer, 6);
    memcpy(auth.responder_nonce, heard.proof, sizeof(heard.proof));
    auth_prove(key, &auth, mac);
    prove(&peer, 6, mac);
    assert_int_equal(raw_hear(&peer, &heard, sizeof(heard), 5000), sizeof(struct zc_peer_welcome));
    raw_close(&peer);
    assert_true(fixture_wait_sessions(&fixture, 0, 5000));

    challenge(&peer, 6);
    prove(&peer, 6, mac);
    assert_int_equal(raw_hear(&peer, &heard, sizeof(heard), 5000), sizeof(heard));
    zc_peer_message_swap(&heard);
    assert_int_equal(heard.status, ZC_PEER_WRONG_KEY);
    raw_expect_end(&peer);
    fixture_responder_stop(&fixture);
    fixture_responder_start(&fixture, 16, 2000);
    zc_key_destroy(key);
}

static void test_without_the_key(void **state)
{
    (void)state;
    struct zc_key *key = make_key("sixteen bytes and more");
    struct raw_peer peer;
    struct zc_peer_message heard;
    again_with((struct zc_responder_params){.key = key, .hello_timeout_ms = 700});

    challenge(&peer, 1);
    say(&peer, 1, ZC_PEER_PROOF);               /* of zeros */
    assert_int_equal(raw_hear(&peer, &heard, sizeof(heard), 5000), sizeof(heard));
    zc_peer_message_swap(&heard);
    assert_int_equal(heard.type, ZC_PEER_BYE);
    assert_int_equal(heard.status, ZC_PEER_WRONG_KEY);
    raw_expect_end(&peer);

    challenge(&peer, 2);
    say(&peer, 2, ZC_PEER_HELLO);               /* again, instead of PROOF */
    assert_int_equal(raw_hear(&peer, &heard, sizeof(heard), 100), 0);
    raw_expect_end(&peer);

    challenge(&peer, 3);
    say(&peer, 3, ZC_PEER_ALIVE);
    assert_int_equal(raw_hear(&peer, &heard, sizeof(heard), 100), 0);
    raw_expect_end(&peer);
    assert_int_equal(fixture_stats(&fixture).ended_error, 2);

    raw_connect(&fixture, &peer, 4, 0, 1);
    say(&peer, 4, ZC_PEER_PROOF);               /* without a HELLO */
    raw_expect_end(&peer);

    challenge(&peer, 5);                        /* and nothing more */
    raw_expect_end(&peer);
    assert_int_equal(fixture_stats(&fixture).ended_timeout, 1);
    fixture_responder_stop(&fixture);
    fixture_responder_start(&fixture, 16, 2000);
    zc_key_destroy(key);
}

/* --- who may --- */

static void test_allowed_networks(void **state)
{
    (void)state;
    struct zc_networks allow;
    struct reader reader;
    assert_int_equal(zc_networks_parse("203.0.113.0/24, 2001:db8::/32", &allow, NULL), 0);
    again_with((struct zc_responder_params){.allow = &allow});
    assert_refused("refused: its configuration does not allow this host's address (allow)");
    assert_refused("(allow)");
    assert_int_equal(fixture_stats(&fixture).sessions_total, 0);
    assert_int_equal(fixture.warnings, 1);
    assert_int_equal(zc_networks_parse(zc_device_info(fixture.device)->address, &allow, NULL), 0);
    again_with((struct zc_responder_params){.allow = &allow});
    reader_open(&fixture, 1, &reader);
    reader_close(&reader);
}

static void test_limits(void **state)
{
    (void)state;
    struct reader first, second;
    struct zc_error err = {0};
    again_with((struct zc_responder_params){.max_sessions_per_peer = 2});
    reader_open(&fixture, 1, &first);
    reader_open(&fixture, 1, &second);
    assert_refused("refused: it serves as many sessions of this host as it may (max_sessions_per_peer = 2)");
    reader_close(&second);
    assert_true(fixture_wait_sessions(&fixture, 1, 5000));
    assert_true(reader_connect(&fixture, zc_device_info(fixture.device)->address, fixture.port, 9, -1, 5000, &second, &err) < 0);
    assert_non_null(strstr(err.message, "refused: it allows a session fewer QPs (max_qps_per_session = 8)"));
    reader_open(&fixture, 8, &second);
    reader_close(&second);
    pthread_mutex_lock(&fixture.lock);
    zc_responder_refuse(fixture.responder);
    pthread_mutex_unlock(&fixture.lock);
    assert_refused("refused: it is shutting down");
    assert_reads(&first, 0);
    reader_close(&first);
}

/* --- silence --- */

static void welcomed(struct raw_peer *peer, uint64_t session)
{
    struct zc_peer_welcome heard;
    raw_connect(&fixture, peer, session, 0, 1);
    say(peer, session, ZC_PEER_HELLO);
    assert_int_equal(raw_hear(peer, &heard, sizeof(heard), 5000), sizeof(heard));
    zc_peer_welcome_swap(&heard);
    assert_int_equal(heard.type, ZC_PEER_WELCOME);
}

/* A QP that is opened and never used ends; one whose program lives does not, whether it reads or not. */
static void test_idle(void **state)
{
    (void)state;
    struct raw_peer idler;
    struct zc_peer_message heard;
    struct reader reader;
    again_with((struct zc_responder_params){.idle_timeout_ms = 400});
    reader_open(&fixture, 1, &reader);
    welcomed(&idler, 1);
    for (int i = 0; i < 150 && fixture_stats(&fixture).ended_idle == 0; i++) {
        assert_int_equal(zc_connection_check(reader.connection, NULL), 0);
        usleep(10000);
    }
    assert_int_equal(fixture_stats(&fixture).ended_idle, 1);
    assert_int_equal(raw_hear(&idler, &heard, sizeof(heard), 5000), sizeof(heard));
    zc_peer_message_swap(&heard);
    assert_int_equal(heard.type, ZC_PEER_BYE);
    assert_int_equal(heard.status, ZC_PEER_IDLE);
    raw_expect_end(&idler);
    for (int i = 0; i < 30; i++, usleep(10000))
        assert_int_equal(zc_connection_check(reader.connection, NULL), 0);
    assert_reads(&reader, 0);
    reader_close(&reader);
}

static void expect_open_for(uint64_t ns)
{
    for (const uint64_t until_ns = zc_now_ns() + ns; zc_now_ns() < until_ns; usleep(20000))
        assert_int_equal(fixture_stats(&fixture).sessions_open, 1);
}

/* Its owner is busy with something else, before it has posted anything and later. All of its send slots are free afterwards. */
static void test_keeper(void **state)
{
    enum { IDLE_MS = 1200, SLOTS = 16 /* of a reader */ };
    (void)state;
    struct reader reader;
    struct zc_keeper *keeper;
    struct zc_error err = {0};
    again_with((struct zc_responder_params){.idle_timeout_ms = IDLE_MS});
    reader_open(&fixture, 1, &reader);
    assert_int_equal(zc_keeper_create(reader.connection, &keeper, &err), 0);
    assert_non_null(keeper);
    expect_open_for(IDLE_MS * UINT64_C(2500000));
    zc_keeper_share(keeper);
    expect_open_for(IDLE_MS * UINT64_C(2500000));
    for (uint64_t i = 0; i < SLOTS; i++)
        assert_int_equal(reader_post(&reader, 0, 0, 64, i), 0);
    for (uint64_t landed = 0; landed < SLOTS;) {
        const struct ibv_wc wc = reader_wait(&reader);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        landed += wc.wr_id != ZC_CONTROL_WR_ID;
    }
    zc_keeper_destroy(keeper);
    reader_close(&reader);
    assert_true(fixture_wait_sessions(&fixture, 0, 5000));
    assert_int_equal(fixture_stats(&fixture).ended_bye, 1);

    again_with((struct zc_responder_params){.idle_timeout_ms = 0});     /* a peer that wants to hear nothing */
    reader_open(&fixture, 1, &reader);
    assert_int_equal(zc_keeper_create(reader.connection, &keeper, &err), 0);
    assert_null(keeper);
    reader_close(&reader);
}

/* The peer's NIC answers without its program, and nothing is written anywhere. A QP that is gone does not answer. */
static void test_keepalive(void **state)
{
    (void)state;
    struct raw_peer mute;
    struct reader reader;
    again_with((struct zc_responder_params){.keepalive_interval_ms = 60});
    reader_open(&fixture, 1, &reader);
    welcomed(&mute, 1);
    usleep(400000);
    assert_int_equal(fixture_stats(&fixture).sessions_open, 2);
    rdma_destroy_qp(mute.id);       /* without a word to the CM: as if its host had lost its power */
    zc_count(&zc_counters.qps, -1);
    assert_true(fixture_wait_sessions(&fixture, 1, 15000));
    assert_int_equal(fixture_stats(&fixture).ended_unreachable, 1);
    assert_reads(&reader, 0);
    reader_close(&reader);
    raw_close(&mute);
}

/* More ALIVEs than time has given credits for. */
static void test_credits(void **state)
{
    (void)state;
    struct raw_peer chatterer;
    again_with((struct zc_responder_params){.idle_timeout_ms = 10000});
    welcomed(&chatterer, 1);
    for (int i = 0; i < ZC_PEER_CREDITS - 1; i++)
        say(&chatterer, 1, ZC_PEER_ALIVE);
    usleep(50000);
    assert_int_equal(fixture_stats(&fixture).sessions_open, 1);
    say(&chatterer, 1, ZC_PEER_ALIVE);
    raw_expect_end(&chatterer);
    assert_int_equal(fixture_stats(&fixture).ended_error, 1);
}

#define leaving_nothing(test) cmocka_unit_test_setup_teardown(test, count, nothing_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        leaving_nothing(test_what_an_rkey_opens),
        leaving_nothing(test_pre_shared_key),
        leaving_nothing(test_without_the_key),
        leaving_nothing(test_proof_used_again),
        leaving_nothing(test_allowed_networks),
        leaving_nothing(test_limits),
        leaving_nothing(test_idle),
        leaving_nothing(test_keeper),
        leaving_nothing(test_keepalive),
        leaving_nothing(test_credits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
