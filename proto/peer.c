/* Byte order of the peer messages and words for their statuses: see peer.h. */
#include "peer.h"

#include <endian.h>

/* htole and letoh are the same operation; bytes and reserved fields need none. */
void zc_peer_request_swap(struct zc_peer_request *request)
{
    request->magic = htole32(request->magic);
    request->version = htole16(request->version);
    request->flags = htole16(request->flags);
    request->session = htole64(request->session);
    request->qp_index = htole16(request->qp_index);
    request->qp_count = htole16(request->qp_count);
}

void zc_peer_answer_swap(struct zc_peer_answer *answer)
{
    answer->magic = htole32(answer->magic);
    answer->version = htole16(answer->version);
    answer->status = htole16(answer->status);
    answer->limit = htole32(answer->limit);
}

void zc_peer_message_swap(struct zc_peer_message *message)
{
    message->magic = htole32(message->magic);
    message->version = htole16(message->version);
    message->type = htole16(message->type);
    message->session = htole64(message->session);
    message->status = htole16(message->status);
}

void zc_peer_welcome_swap(struct zc_peer_welcome *welcome)
{
    welcome->magic = htole32(welcome->magic);
    welcome->version = htole16(welcome->version);
    welcome->type = htole16(welcome->type);
    welcome->session = htole64(welcome->session);
    welcome->region_address = htole64(welcome->region_address);
    welcome->region_size = htole64(welcome->region_size);
    welcome->pattern_seed = htole64(welcome->pattern_seed);
    welcome->alive_ms = htole32(welcome->alive_ms);
    welcome->active_mtu = htole32(welcome->active_mtu);
    for (int i = 0; i < ZC_PEER_QPS_MAX; i++)
        welcome->rkeys[i] = htole32(welcome->rkeys[i]);
}

const char *zc_peer_status_text(uint16_t status)
{
    switch ((enum zc_peer_status)status) {
    case ZC_PEER_OK:
        return "it accepted";
    case ZC_PEER_BAD_REQUEST:
        return "it does not understand the request";
    case ZC_PEER_BAD_VERSION:
        return "it speaks another version of the peer protocol";
    case ZC_PEER_TOO_MANY:
        return "it serves as many sessions as it may";
    case ZC_PEER_NO_MEMORY:
        return "it has no memory or verbs objects left";
    case ZC_PEER_GOING_AWAY:
        return "it is shutting down";
    case ZC_PEER_TOO_MANY_QPS:
        return "it allows a session fewer QPs";
    case ZC_PEER_TOO_MANY_OF_PEER:
        return "it serves as many sessions of this host as it may";
    case ZC_PEER_NOT_ALLOWED:
        return "its configuration does not allow this host's address (allow)";
    case ZC_PEER_WRONG_KEY:
        return "its pre-shared key is another one (key_file)";
    case ZC_PEER_IDLE:
        return "it heard nothing from this session for too long (idle_timeout)";
    case ZC_PEER_OTHER_DEVICE:
        return "it serves another RDMA device than the one with this address";
    }
    return "it gave a reason that this version does not know";
}

const char *zc_peer_status_limit(uint16_t status)
{
    switch (status) {
    case ZC_PEER_TOO_MANY:
        return "max_sessions";
    case ZC_PEER_TOO_MANY_QPS:
        return "max_qps_per_session";
    case ZC_PEER_TOO_MANY_OF_PEER:
        return "max_sessions_per_peer";
    default:
        return NULL;
    }
}
