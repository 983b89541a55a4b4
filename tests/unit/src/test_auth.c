/* The pre-shared key: which files are keys, and which MACs are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth.h"

static char file[64];

static void write_file(const void *bytes, size_t length, mode_t mode)
{
    unlink(file);
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && write(fd, bytes, length) == (ssize_t)length && fchmod(fd, mode) == 0);
    close(fd);
}

static struct zc_key *load(const char *text)
{
    struct zc_key *key = NULL;
    struct zc_error err = {0};
    write_file(text, strlen(text), 0600);
    if (zc_key_load(file, &key, &err))
        fail_msg("%s", err.message);
    return key;
}

static void assert_no_key(const char *words)
{
    struct zc_key *key = NULL;
    struct zc_error err = {0};
    assert_true(zc_key_load(file, &key, &err) < 0);
    assert_null(key);
    assert_int_equal(err.kind, ZC_ERR_INVALID);
    assert_string_equal(err.field, "key_file");
    if (!strstr(err.message, words) || !strstr(err.message, file))
        fail_msg("expected '%s' and the file's name, not: %s", words, err.message);
}

static void test_files(void **state)
{
    static char bytes[5000];
    (void)state;
    memset(bytes, 'k', sizeof(bytes));
    unlink(file);
    assert_no_key("No such file");
    write_file(bytes, 15, 0600);
    assert_no_key("16 to 4096 bytes");
    write_file("fifteen-bytes..\n\n\n\n", 19, 0600);
    assert_no_key("16 to 4096 bytes");
    write_file(bytes, 4097, 0600);
    assert_no_key("16 to 4096 bytes");
    write_file(bytes, 32, 0644);
    assert_no_key("open to others (mode 0644)");
    write_file(bytes, 32, 0660);
    assert_no_key("open to others (mode 0660)");
    unlink(file);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_no_key("no regular file");
    rmdir(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_no_key("no regular file");
    write_file(bytes, 4096, 0640);
    struct zc_key *key = NULL;
    assert_int_equal(zc_key_load(file, &key, NULL), 0);
    zc_key_destroy(key);
    zc_key_destroy(NULL);
}

static struct auth_session a_session(void)
{
    struct auth_session session = {.session = 4711};
    auth_nonce(session.requester_nonce);
    auth_nonce(session.responder_nonce);
    assert_memory_not_equal(session.requester_nonce, session.responder_nonce, ZC_PEER_PROOF_BYTES);
    return session;
}

/* White space behind a key is an editor's. */
static void test_proof(void **state)
{
    (void)state;
    struct zc_key *key = load("correct horse battery staple"), *same = load("correct horse battery staple \n"),
                  *other = load("correct horse battery stapler");
    struct auth_session session = a_session(), changed = session;
    uint8_t mac[ZC_PEER_PROOF_BYTES];
    auth_prove(key, &session, mac);
    assert_true(auth_proof_is_right(key, &session, mac));
    assert_true(auth_proof_is_right(same, &session, mac));
    assert_false(auth_proof_is_right(other, &session, mac));
    for (unsigned i = 0; i < ZC_PEER_PROOF_BYTES; i++) {
        mac[i] ^= 0x10;
        assert_false(auth_proof_is_right(key, &session, mac));
        mac[i] ^= 0x10;
    }
    changed.session++;
    assert_false(auth_proof_is_right(key, &changed, mac));
    changed = session;
    changed.requester_nonce[0]++;
    assert_false(auth_proof_is_right(key, &changed, mac));
    changed = session;
    changed.responder_nonce[31]++;
    assert_false(auth_proof_is_right(key, &changed, mac));
    memset(mac, 0, sizeof(mac));
    assert_false(auth_proof_is_right(key, &session, mac));
    zc_key_destroy(key);
    zc_key_destroy(same);
    zc_key_destroy(other);
}

static void test_welcome(void **state)
{
    (void)state;
    struct zc_key *key = load("correct horse battery staple");
    struct auth_session session = a_session();
    struct zc_peer_welcome welcome = {.magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .region_size = 4096, .rkeys = {7, 8}}, changed;
    uint8_t proof[ZC_PEER_PROOF_BYTES];
    auth_sign_welcome(key, &session, &welcome);
    assert_true(auth_welcome_is_right(key, &session, &welcome));
    auth_prove(key, &session, proof);
    assert_memory_not_equal(proof, welcome.mac, sizeof(proof));     /* neither is an answer to the other's question */
    for (size_t i = 0; i < sizeof(welcome); i++) {
        changed = welcome;
        ((uint8_t *)&changed)[i] ^= 1;
        assert_false(auth_welcome_is_right(key, &session, &changed));
    }
    zc_key_destroy(key);
}

static int setup(void **state)
{
    (void)state;
    snprintf(file, sizeof(file), "/tmp/zc-key-%d", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_proof),
        cmocka_unit_test(test_welcome),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
