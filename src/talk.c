/* What a requester says and hears on its control QP: HELLO and the answer to a CHALLENGE, up to WELCOME, and BYE. Called by
 * connection.c. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "connection_private.h"
#include "memory.h"
#include "post.h"

/* --- receives --- */

static void receive_wr(struct zc_connection *c, uint64_t slot, struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
    *sge = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)&c->messages[slot], .length = sizeof(c->messages[slot]),
                            .lkey = c->mr->lkey};
    zc_wr_recv(wr, slot, sge, 1);
}

/* The control QP gets room for messages. Every other QP gets one receive that nothing may arrive in: it tells, by being flushed,
 * that the QP has failed, since async events of this device go to another owner (responder.c). */
int connection_post_receives(struct zc_connection *c, uint32_t index, struct zc_error *err)
{
    struct ibv_recv_wr wrs[CONTROL_RECEIVES];
    struct ibv_sge sges[CONTROL_RECEIVES];
    size_t count = index == 0 ? CONTROL_RECEIVES : 1, accepted;
    for (size_t i = 0; i < count; i++) {
        if (index == 0)
            receive_wr(c, CONTROL_RECEIVE + i, &wrs[i], &sges[i]);
        else
            zc_wr_recv(&wrs[i], CONTROL_MESSAGES, NULL, 0);
    }
    zc_wr_link_recv(wrs, count);
    int rc = zc_post_recv(c->ids[index]->qp, wrs, &accepted, NULL);
    return rc ? zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "cannot post a receive: %s", strerror(-rc)) : 0;
}

/* --- hearing --- */

static void heard_welcome(struct zc_connection *c, const struct zc_peer_welcome *welcome)
{
    c->welcome = *welcome;          /* in wire order until it has been checked */
    c->welcomed = true;
}

static void heard_bye(struct zc_connection *c, const struct zc_peer_message *bye)
{
    c->told = true;
    c->lost = bye->status == ZC_PEER_OK ? "it ended the session" : zc_peer_status_text(bye->status);
}

static bool is_for(const struct zc_connection *c, const struct zc_peer_message *message)
{
    return message->magic == ZC_PEER_MAGIC && message->session == c->auth.session;
}

/* All messages begin alike, and the shortest has a status where it is needed. */
static void heard(struct zc_connection *c, const union control_message *raw, uint32_t length)
{
    struct zc_peer_message message = raw->message;
    zc_peer_message_swap(&message);
    const bool fits = length == sizeof(raw->message), ours = length >= sizeof(raw->message) && is_for(c, &message);
    if (ours && length == sizeof(raw->welcome) && message.type == ZC_PEER_WELCOME && !c->welcomed) {
        heard_welcome(c, &raw->welcome);
    } else if (ours && fits && message.type == ZC_PEER_CHALLENGE && !c->challenged && !c->welcomed) {
        memcpy(c->auth.responder_nonce, message.proof, sizeof(message.proof));
        c->challenged = true;
    } else if (ours && fits && message.type == ZC_PEER_BYE) {
        heard_bye(c, &message);
    } else if (!c->lost) {
        c->lost = "it sent a message that makes no sense";
    }
}

static void received(struct zc_connection *c, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS || wc->wr_id < CONTROL_RECEIVE || wc->wr_id >= CONTROL_MESSAGES) {
        if (!c->lost)
            c->lost = wc->status == IBV_WC_WR_FLUSH_ERR ? "a QP went into the error state" : ibv_wc_status_str(wc->status);
        return;
    }
    const union control_message message = c->messages[wc->wr_id];
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
    receive_wr(c, wc->wr_id, &wr, &sge);
    zc_post_recv(c->ids[0]->qp, &wr, NULL, NULL);
    heard(c, &message, wc->byte_len);
}

void connection_drain_control(struct zc_connection *c)
{
    struct ibv_wc wcs[CONTROL_RECEIVES];
    int count;
    zc_completion_rearm(c->control);
    while ((count = zc_completion_poll(c->control, CONTROL_RECEIVES, wcs)) > 0)
        for (int i = 0; i < count; i++)
            received(c, &wcs[i]);
}

/* --- saying --- */

void connection_write(struct zc_connection *c, unsigned slot, uint16_t type, const uint8_t *proof)
{
    struct zc_peer_message *message = &c->messages[slot].message;
    *message = (struct zc_peer_message){
        .magic = ZC_PEER_MAGIC, .version = ZC_PEER_VERSION, .type = type, .session = c->auth.session};
    if (proof)
        memcpy(message->proof, proof, sizeof(message->proof));
    zc_peer_message_swap(message);
}

int connection_post(struct zc_connection *c, unsigned slot, unsigned flags)
{
    struct zc_peer_message *message = &c->messages[slot].message;
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)message, .length = sizeof(*message), .lkey = c->mr->lkey};
    struct ibv_send_wr wr;
    zc_wr_send(&wr, slot == CONTROL_BYE ? CONTROL_BYE_WR_ID : ZC_CONTROL_WR_ID, &sge, 1, flags);
    return zc_sender_post(&c->senders[0], &wr, NULL, NULL);
}

/* Unsignaled, like all of these: no completion of ours reaches the caller's CQ unless the connection fails, and then nobody gets it. */
static int greet_with(struct zc_connection *c, unsigned slot, uint16_t type, const uint8_t *proof, struct zc_error *err)
{
    connection_write(c, slot, type, proof);
    int rc = connection_post(c, slot, 0);
    return rc ? zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "cannot greet peer %s: %s", c->name, strerror(-rc)) : 0;
}

/* --- from HELLO to WELCOME --- */

static int prove(struct zc_connection *c, struct zc_error *err)
{
    uint8_t mac[ZC_PEER_PROOF_BYTES];
    if (!c->key)
        return zc_error_set(err, ZC_ERR_PEER, -EACCES, "peer", "peer %s demands a pre-shared key, and none is configured here "
                            "(key_file)", c->name);
    auth_prove(c->key, &c->auth, mac);
    return greet_with(c, CONTROL_PROOF, ZC_PEER_PROOF, mac, err);
}

static int check_welcome(struct zc_connection *c, struct zc_error *err)
{
    struct zc_peer_welcome *w = &c->welcome;
    const bool genuine = !c->challenged || auth_welcome_is_right(c->key, &c->auth, w);
    zc_peer_welcome_swap(w);
    if (w->version != ZC_PEER_VERSION)
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s speaks version %u of the peer protocol, this is %d", c->name,
                            w->version, ZC_PEER_VERSION);
    if (!genuine)
        return zc_error_set(err, ZC_ERR_PEER, -EACCES, "peer", "peer %s does not know the pre-shared key itself (key_file)", c->name);
    if (w->region_size == 0 || w->region_address > UINT64_MAX - w->region_size)
        return zc_error_set(err, ZC_ERR_PEER, -EPROTO, "peer", "peer %s offers a region that cannot exist: %llu bytes at %#llx", c->name,
                            (unsigned long long)w->region_size, (unsigned long long)w->region_address);
    c->remote.address = w->region_address;
    c->remote.size_bytes = w->region_size;
    c->remote.pattern_seed = w->pattern_seed;
    c->remote.active_mtu = w->active_mtu;
    c->alive_ns = (uint64_t)w->alive_ms * 1000000u;
    atomic_store(&c->next_alive_ns, zc_now_ns() + c->alive_ns);
    connection_write(c, CONTROL_ALIVE, ZC_PEER_ALIVE, NULL);    /* once: it never changes, and two threads may post it */
    zc_cm_address_split(rdma_get_peer_addr(c->ids[0]), c->remote.numeric_address, sizeof(c->remote.numeric_address),
                        &c->remote.port);
    return 0;
}

static int lost_early(const struct zc_connection *c, struct zc_error *err)
{
    if (c->removed)
        return connection_removed(c, err);
    if (c->told)
        return zc_error_set(err, ZC_ERR_PEER, -ECONNREFUSED, "peer", "peer %s refused: %s", c->name, c->lost);
    return zc_error_set(err, ZC_ERR_PEER, -ENOTCONN, "peer", "peer %s was lost before its WELCOME: %s", c->name, c->lost);
}

int connection_greet(struct zc_connection *c, struct zc_error *err)
{
    bool proved = false;
    auth_nonce(c->auth.requester_nonce);
    int rc = greet_with(c, CONTROL_HELLO, ZC_PEER_HELLO, c->auth.requester_nonce, err);
    while (rc == 0) {
        connection_drain_control(c);
        if (c->welcomed)
            return check_welcome(c, err);
        connection_drain_events(c);
        if (c->lost)
            return lost_early(c, err);
        if (c->challenged && !proved)
            rc = prove(c, err);
        proved = c->challenged;
        if (rc == 0)
            rc = connection_wait(c, err);
    }
    return rc;
}
