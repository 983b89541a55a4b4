/* What peers say to each other (proto/peer.c): there and back is the same, and every status has words. */
#include "peer.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zc_peer_request request;
    struct zc_peer_answer answer;
    struct zc_peer_message message;
    if (size >= sizeof request) {
        memcpy(&request, data, sizeof request);
        zc_peer_request_swap(&request);
        zc_peer_request_swap(&request);
        HOLDS(memcmp(&request, data, sizeof request) == 0);
    }
    if (size >= sizeof answer) {
        memcpy(&answer, data, sizeof answer);
        zc_peer_answer_swap(&answer);
        HOLDS(*zc_peer_status_text(answer.status));
        zc_peer_answer_swap(&answer);
        HOLDS(memcmp(&answer, data, sizeof answer) == 0);
    }
    if (size >= sizeof message) {
        memcpy(&message, data, sizeof message);
        zc_peer_message_swap(&message);
        HOLDS(*zc_peer_status_text(message.status));
        zc_peer_message_swap(&message);
        HOLDS(memcmp(&message, data, sizeof message) == 0);
    }
    return 0;
}
