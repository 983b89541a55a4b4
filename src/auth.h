/* The optional pre-shared key of two daemons: who has no key learns no rkey. A challenge and its answer are a MAC (HMAC-SHA-512/256,
 * crypto_auth(3) of libsodium) over the session and a nonce of either side, so that neither is worth anything a second time. Set-up
 * only; any thread. Private to src/ but for the key itself. */
#ifndef ZC_AUTH_H
#define ZC_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "peer.h"

struct zc_key;

/* Read a key from a file of 16 bytes to 4 KiB; white space at its end does not count. ZC_ERR_INVALID with field "key_file": it
 * cannot be read, is no regular file, is too short or too long, or others than its owner and group may read it or may write it. */
int zc_key_load(const char *path, struct zc_key **key, struct zc_error *err);
void zc_key_destroy(struct zc_key *key);    /* overwrites it; NULL is allowed */

/* What both sides know before the MAC: nonces are random, and the session is the requester's choice. */
struct auth_session {
    uint64_t session;
    uint8_t requester_nonce[ZC_PEER_PROOF_BYTES], responder_nonce[ZC_PEER_PROOF_BYTES];
};

void auth_nonce(uint8_t nonce[ZC_PEER_PROOF_BYTES]);
/* The requester's PROOF, and whether a PROOF is right (constant time). */
void auth_prove(const struct zc_key *key, const struct auth_session *session, uint8_t mac[ZC_PEER_PROOF_BYTES]);
bool auth_proof_is_right(const struct zc_key *key, const struct auth_session *session, const uint8_t mac[ZC_PEER_PROOF_BYTES]);
/* The same for the responder's WELCOME, in wire order: everything in it, `mac` taken as zero. */
void auth_sign_welcome(const struct zc_key *key, const struct auth_session *session, struct zc_peer_welcome *welcome);
bool auth_welcome_is_right(const struct zc_key *key, const struct auth_session *session, const struct zc_peer_welcome *welcome);

#endif
