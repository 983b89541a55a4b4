/* Byte order of the peer messages and words for their statuses: see peer.h. */
#include "peer.h"

#include <endian.h>

/* htole and letoh are the same operation; only the reserved fields need none, they are zero. */
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
}

void zc_peer_message_swap(struct zc_peer_message *message)
{
    message->magic = htole32(message->magic);
    message->version = htole16(message->version);
    message->type = htole16(message->type);
    message->session = htole64(message->session);
    message->region_address = htole64(message->region_address);
    message->region_size = htole64(message->region_size);
    message->pattern_seed = htole64(message->pattern_seed);
    message->rkey = htole32(message->rkey);
    message->status = htole16(message->status);
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
        return "it serves as many sessions or QPs as it may";
    case ZC_PEER_NO_MEMORY:
        return "it has no memory or verbs objects left";
    case ZC_PEER_GOING_AWAY:
        return "it is shutting down";
    }
    return "it gave a reason that this version does not know";
}
