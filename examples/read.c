/* Reads the beginning of a zcrdmad's region in one batch of READs, from arrays on the stack, and compares it with the pattern that the
 * daemon says it holds:   cc -o read read.c $(pkg-config --cflags --libs zcrdma) && ./read HOST PORT */
#include <stdio.h>
#include <stdlib.h>
#include <zcrdma/zc.h>

enum { READS = 16, BYTES = 4096 };
static uint8_t memory[READS * BYTES];

static int fail(const char *why)
{
    fprintf(stderr, "read: %s\n", why);
    return 1;
}

static int read_all(struct zc_connection *peer, struct zc_completion *completion, const struct ibv_mr *mr)
{
    const struct zc_remote *remote = zc_connection_remote(peer);
    const struct zc_sender *sender = zc_connection_sender(peer, 0);
    struct ibv_send_wr wrs[READS], *bad;
    struct ibv_sge sges[READS];
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    char text[128];
    for (uint64_t i = 0; i < READS; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)&memory[i * BYTES], .length = BYTES, .lkey = mr->lkey};
        zc_wr_read(&wrs[i], i, &sges[i], 1, remote->address + i * BYTES, zc_connection_rkey(peer, 0), 0);
    }
    zc_wr_link_send(wrs, READS);
    wrs[READS - 1].send_flags = IBV_SEND_SIGNALED;      /* READs of a QP complete in order: the last one speaks for all */

    int rc = zc_sender_post(sender, wrs, NULL, &bad);   /* one call, one doorbell; the arrays are ours again when it returns */
    if (rc != 0)
        return fail(zc_sender_error_text(sender, rc, bad, text, sizeof text));
    while ((rc = zc_completion_poll(completion, 1, &wc)) == 0)
        if (zc_connection_check(peer, NULL) != 0)
            return fail("the peer is gone");
    size_t wrong;
    if (rc != 1 || wc.status != IBV_WC_SUCCESS)
        return fail(rc == 1 ? ibv_wc_status_str(wc.status) : "polling failed");
    if (!zc_pattern_check(memory, sizeof memory, 0, remote->pattern_seed, &wrong))
        return fail("these are not the peer's bytes");
    printf("%zu bytes in %d READs, %s verbs\n", sizeof memory, READS, sender->ex ? "extended" : "basic");
    return 0;
}

int main(int argc, char **argv)
{
    struct zc_error error = {.message = "usage: read HOST PORT"};
    struct zc_device *device = NULL;
    struct zc_completion *completion = NULL;
    struct zc_connection *peer = NULL;
    struct ibv_mr *mr = NULL;
    struct zc_connection_params params = {.qps = 1, .send_slots = READS, .timeout_ms = 5000, .cancel_fd = -1};
    int rc = argc != 3 || zc_device_open(NULL, &device, &error) ||
             zc_completion_create_family(device, 2 * READS, ZC_FAMILY_AUTO, &completion, &error) ||
             zc_mr_register(device, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE, "the example's memory", &mr, &error);
    if (rc == 0) {
        params.host = argv[1], params.port = (uint16_t)atoi(argv[2]), params.completion = completion;
        rc = zc_connection_open(device, &params, &peer, &error);
    }
    rc = rc ? fail(error.message) : read_all(peer, completion, mr);
    zc_connection_close(peer);
    zc_mr_deregister(mr);
    zc_completion_destroy(completion);
    zc_device_close(device);
    return rc;
}
