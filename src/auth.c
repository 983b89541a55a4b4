/* Keys and MACs by libsodium: see auth.h. Nothing else includes it. */
#include "auth.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES_MIN = 16, KEY_BYTES_MAX = 4096 };

struct zc_key {
    uint8_t bytes[crypto_auth_KEYBYTES];    /* a hash of the file's, whatever their number */
};

static_assert(crypto_auth_BYTES == ZC_PEER_PROOF_BYTES, "a MAC fits into a message");

/* What a MAC is made over. The label keeps an answer to one question from being the answer to another. */
struct transcript {
    char label[16];
    uint64_t session;
    uint8_t nonces[2][ZC_PEER_PROOF_BYTES];
    struct zc_peer_welcome welcome;         /* zero in a PROOF */
};
static_assert(sizeof(struct transcript) == 16 + 8 + 2 * ZC_PEER_PROOF_BYTES + sizeof(struct zc_peer_welcome), "no padding");

/* --- the key --- */

static int check_file(const char *path, const struct stat *file, struct zc_error *err)
{
    if (!S_ISREG(file->st_mode))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "key_file", "key_file %s is no regular file", path);
    if (file->st_mode & (S_IRWXO | S_IWGRP))
        return zc_error_set(err, ZC_ERR_INVALID, -EPERM, "key_file", "key_file %s is open to others (mode %04o): chmod 0640 or 0600",
                            path, file->st_mode & 07777);
    return 0;
}

static int read_key(const char *path, uint8_t bytes[KEY_BYTES_MAX + 1], size_t *length, struct zc_error *err)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &file) != 0) {
        int rc = zc_error_set(err, ZC_ERR_INVALID, -errno, "key_file", "cannot read key_file %s: %m", path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = check_file(path, &file, err);
    ssize_t got = rc ? 0 : read(fd, bytes, KEY_BYTES_MAX + 1);
    if (got < 0)
        rc = zc_error_set(err, ZC_ERR_INVALID, -errno, "key_file", "cannot read key_file %s: %m", path);
    close(fd);
    while (got > 0 && isspace(bytes[got - 1]))
        got--;
    if (rc == 0 && (got < KEY_BYTES_MIN || got > KEY_BYTES_MAX))
        rc = zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "key_file", "key_file %s must hold %d to %d bytes", path, KEY_BYTES_MIN,
                          KEY_BYTES_MAX);
    if (rc == 0)
        *length = (size_t)got;
    return rc;
}

int zc_key_load(const char *path, struct zc_key **key, struct zc_error *err)
{
    uint8_t bytes[KEY_BYTES_MAX + 1];
    size_t length = 0;
    if (sodium_init() < 0)
        return zc_error_set(err, ZC_ERR_INTERNAL, -EIO, "key_file", "libsodium does not start");
    int rc = read_key(path, bytes, &length, err);
    struct zc_key *made = rc ? NULL : malloc(sizeof(*made));
    if (rc == 0 && !made)
        rc = zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, "key_file", "no memory for a key");
    if (rc == 0) {
        crypto_generichash(made->bytes, sizeof(made->bytes), bytes, length, NULL, 0);
        *key = made;
    }
    sodium_memzero(bytes, sizeof(bytes));
    return rc;
}

void zc_key_destroy(struct zc_key *key)
{
    if (!key)
        return;
    sodium_memzero(key, sizeof(*key));
    free(key);
}

/* --- MACs --- */

void auth_nonce(uint8_t nonce[ZC_PEER_PROOF_BYTES])
{
    while (getrandom(nonce, ZC_PEER_PROOF_BYTES, 0) != ZC_PEER_PROOF_BYTES)
        ;       /* interrupted, or too early in the life of the system: then it would wait by itself */
}

static struct transcript transcribe(const char *label, const struct auth_session *session)
{
    struct transcript t = {.session = htole64(session->session)};
    memcpy(t.label, label, strlen(label));
    memcpy(t.nonces[0], session->requester_nonce, ZC_PEER_PROOF_BYTES);
    memcpy(t.nonces[1], session->responder_nonce, ZC_PEER_PROOF_BYTES);
    return t;
}

static struct transcript of_proof(const struct auth_session *session)
{
    return transcribe("zcrdma proof", session);
}

static struct transcript of_welcome(const struct auth_session *session, const struct zc_peer_welcome *welcome)
{
    struct transcript t = transcribe("zcrdma welcome", session);
    t.welcome = *welcome;
    memset(t.welcome.mac, 0, sizeof(t.welcome.mac));
    return t;
}

void auth_prove(const struct zc_key *key, const struct auth_session *session, uint8_t mac[ZC_PEER_PROOF_BYTES])
{
    struct transcript t = of_proof(session);
    crypto_auth(mac, (const uint8_t *)&t, sizeof(t), key->bytes);
}

bool auth_proof_is_right(const struct zc_key *key, const struct auth_session *session, const uint8_t mac[ZC_PEER_PROOF_BYTES])
{
    struct transcript t = of_proof(session);
    return crypto_auth_verify(mac, (const uint8_t *)&t, sizeof(t), key->bytes) == 0;
}

void auth_sign_welcome(const struct zc_key *key, const struct auth_session *session, struct zc_peer_welcome *welcome)
{
    struct transcript t = of_welcome(session, welcome);
    crypto_auth(welcome->mac, (const uint8_t *)&t, sizeof(t), key->bytes);
}

bool auth_welcome_is_right(const struct zc_key *key, const struct auth_session *session, const struct zc_peer_welcome *welcome)
{
    struct transcript t = of_welcome(session, welcome);
    return crypto_auth_verify(welcome->mac, (const uint8_t *)&t, sizeof(t), key->bytes) == 0;
}
