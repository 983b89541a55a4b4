/* What connection.c (the life of a connection), connect.c (how one QP gets connected) and talk.c (what is said) share. Private to
 * src/. */
#ifndef ZC_CONNECTION_PRIVATE_H
#define ZC_CONNECTION_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cm.h"
#include "connection.h"
#include "options.h"
#include "peer.h"
#include "resolve.h"

/* Messages that the control QP sends and receives; they lie in one registered page. */
enum {
    CONTROL_HELLO, CONTROL_PROOF, CONTROL_ALIVE, CONTROL_BYE,
    CONTROL_RECEIVE, CONTROL_RECEIVES = 4, CONTROL_MESSAGES = CONTROL_RECEIVE + CONTROL_RECEIVES,
    /* Send slots beside the READs': an ALIVE holds one until a later READ completes, and some may go out during a long one. */
    CONTROL_SENDS = CONTROL_RECEIVE + 4,
};
/* The BYE's: an ALIVE may complete after it was posted. */
#define CONTROL_BYE_WR_ID (ZC_CONTROL_WR_ID - 1)

union control_message {
    struct zc_peer_message message;
    struct zc_peer_welcome welcome;
};

enum { CONNECTION_NAME_MAX = ZC_PEER_MAX + 8 };

struct zc_connection {
    const struct zc_device *device;
    struct zc_completion *completion;       /* the caller's: sends of all QPs */
    struct zc_completion *control;          /* ours: receives of all QPs, so that the data path never sees one */
    struct rdma_event_channel *channel;
    int epoll_fd;                           /* over the channel and the control completions */

    union control_message *messages;        /* CONTROL_MESSAGES of them */
    struct zc_buffer *page;
    struct ibv_mr *mr;

    struct rdma_cm_id **ids;                /* qps of them; NULL until created */
    struct zc_sender *senders;              /* of each */
    enum zc_family post;
    uint32_t qps, connected;
    uint32_t send_slots;
    uint32_t outstanding_reads;
    struct auth_session auth;               /* its `session` names this one to the peer */
    const struct zc_key *key;

    char name[CONNECTION_NAME_MAX];         /* HOST:PORT as asked for: every message has it */
    uint16_t port;
    uint32_t timeout_ms;
    uint8_t tos;
    struct zc_addresses from;               /* count 0: the system chooses */
    uint64_t deadline_ns;
    int cancel_fd;

    bool challenged, welcomed;
    struct zc_peer_welcome welcome;         /* in host order */
    uint64_t alive_ns;                      /* 0: the peer wants no ALIVE */
    atomic_uint_least64_t next_alive_ns;    /* who moves it on, says it: the owner or its keeper */
    struct zc_remote remote;
    const char *_Atomic lost;               /* why the peer is gone; NULL while it is there */
    bool told;                              /* it said so itself, in a BYE */
    bool removed;                           /* the device is being taken away here, which is why */
    bool asked;                             /* a lost connection has waited for its reason */
};

/* Connect QP `index` to `address`. Uses up what is left until connection->deadline_ns. */
int connect_qp(struct zc_connection *connection, uint32_t index, struct sockaddr *address, struct zc_error *err);

/* Wait for connection->epoll_fd until the deadline; errors are classified here. */
int connection_wait(struct zc_connection *connection, struct zc_error *err);
/* An rdma_cm event of a QP that is connected already, and all that are pending. */
void connection_event(struct zc_connection *connection, const struct zc_cm_event *event);
void connection_drain_events(struct zc_connection *connection);
/* The error of a connection whose device is being taken away. */
int connection_removed(const struct zc_connection *connection, struct zc_error *err);

/* Post the receives of QP `index`, before the peer can send. */
int connection_post_receives(struct zc_connection *connection, uint32_t index, struct zc_error *err);
/* Handle what control completions there are: CHALLENGE, WELCOME, BYE, failures. Never blocks. */
void connection_drain_control(struct zc_connection *connection);
/* A message into its slot; `proof` may be NULL. */
void connection_write(struct zc_connection *connection, unsigned slot, uint16_t type, const uint8_t *proof);
/* What is in the slot goes out. 0 or a negative errno. */
int connection_post(struct zc_connection *connection, unsigned slot, unsigned flags);
/* From HELLO to WELCOME, which fills connection->remote. */
int connection_greet(struct zc_connection *connection, struct zc_error *err);

/* For keeper.c: ALIVE from another thread than the owner's. `alone`: nobody posts to the connection or polls its completion meanwhile,
 * so completions are taken and dropped, and no number of messages fills the send queue. Else only what the owner is late with is said.
 * Returns after how many ns it wants to be called again; 0: never. */
uint64_t connection_keep(struct zc_connection *connection, bool alone, uint64_t now_ns);

#endif
