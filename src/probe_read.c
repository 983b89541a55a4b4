/* What the fabric costs: READs alone and in a stream, polling and asleep, QPs and sessions. See probe_private.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "counters.h"
#include "post.h"
#include "probe_private.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    SPINS_PER_LOOK = 256,           /* empty polls between two readings of the clock */
    CHECK_INTERVAL_NS = 5000000,    /* between two looks at the connection */
    QP_SLOTS = 64,
    STREAM_TRIAL_MIN = 4,           /* completions: they come in bursts */
};
static const uint64_t stuck_ns = 5000000000;    /* without a completion */

static int open_session(const struct probe_run *run, struct zc_completion *completion, struct zc_connection **connection)
{
    const struct zc_connection_params params = {
        .host = run->params->host, .port = run->params->port, .qps = 1, .send_slots = ZC_PROBE_INFLIGHT_MAX,
        .timeout_ms = CONNECT_TIMEOUT_MS, .key = run->params->key, .cancel_fd = run->params->cancel_fd, .completion = completion,
    };
    return zc_connection_open(run->params->device, &params, connection, run->err);
}

int probe_connect(struct probe_run *run, uint32_t inflight)
{
    int rc = zc_completion_create(run->params->device, ZC_PROBE_INFLIGHT_MAX + 1, &run->completion, run->err);
    if (rc == 0)
        rc = open_session(run, run->completion, &run->connection);
    if (rc < 0)
        return rc;
    const struct zc_remote *const remote = zc_connection_remote(run->connection);
    struct zc_peer_info *const peer = &run->probe->peer;
    memcpy(peer->address, remote->numeric_address, sizeof peer->address);
    peer->port = remote->port;
    peer->region_bytes = remote->size_bytes;
    rc = zc_buffer_create((size_t)ZC_PROBE_READ_MAX * inflight, run->numa_node, &run->landing, run->err);
    if (rc < 0)
        return rc;
    return zc_mr_register(run->params->device, run->landing.address, run->landing.length_bytes, IBV_ACCESS_LOCAL_WRITE,
                          "memory to read into", &run->mr, run->err);
}

/* The connection goes first: see zc_connection_close(). */
void probe_release(struct probe_run *run)
{
    zc_connection_close(run->connection);
    zc_mr_deregister(run->mr);
    zc_buffer_destroy(&run->landing);
    zc_completion_destroy(run->completion);
}

/* ---- READs ---- */

static int post(struct probe_run *run, uint64_t slot, uint64_t size_bytes)
{
    const struct zc_remote *const remote = zc_connection_remote(run->connection);
    if (run->offset + size_bytes > remote->size_bytes)
        run->offset = 0;
    struct ibv_sge sge = { .addr = (uintptr_t)run->landing.address + slot * ZC_PROBE_READ_MAX, .length = (uint32_t)size_bytes,
                           .lkey = run->mr->lkey };
    struct ibv_send_wr wr;
    zc_wr_read(&wr, slot, &sge, 1, remote->address + run->offset, zc_connection_rkey(run->connection, 0), IBV_SEND_SIGNALED);
    run->offset += size_bytes;
    const int rc = zc_post_send(zc_connection_qp(run->connection, 0), &wr, NULL, NULL);
    return rc == 0 ? 0 : zc_error_set(run->err, ZC_ERR_DEVICE, rc, NULL, "cannot post a READ of %" PRIu64 " bytes: %s", size_bytes,
                                      strerror(-rc));
}

/* How the READ ended; a connection that is lost says more than the status. */
static int check(const struct probe_run *run, const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_SUCCESS)
        return 0;
    const int rc = zc_connection_check(run->connection, run->err);
    return rc < 0 ? rc : zc_error_set(run->err, ZC_ERR_PEER, -EIO, "peer", "a READ failed: %s", ibv_wc_status_str(wc->status));
}

/* Nothing has come yet: may it still? */
static int look_around(const struct probe_run *run, uint64_t since_ns, uint64_t *next_check_ns)
{
    const uint64_t now_ns = zc_now_ns();
    int rc = probe_look(run);
    if (rc < 0 || now_ns < *next_check_ns)
        return rc;
    *next_check_ns = now_ns + CHECK_INTERVAL_NS;
    rc = zc_connection_check(run->connection, run->err);
    if (rc == 0 && now_ns - since_ns > stuck_ns)
        rc = zc_error_set(run->err, ZC_ERR_PEER, -ETIMEDOUT, "peer", "no completion of a READ for 5 s");
    return rc;
}

/* One completion: its slot, or a negative errno. */
static int wait_polling(const struct probe_run *run)
{
    uint64_t since_ns = 0, next_check_ns = 0;
    for (unsigned spins = 1;; spins++) {
        struct ibv_wc wc;
        int rc = zc_completion_poll(run->completion, 1, &wc);
        if (rc == 0 && spins % SPINS_PER_LOOK != 0)
            continue;
        if (rc == 0) {
            since_ns = since_ns ? since_ns : zc_now_ns();
            rc = look_around(run, since_ns, &next_check_ns);
            if (rc == 0)
                continue;
            return rc;
        }
        if (rc < 0)
            return zc_error_set(run->err, ZC_ERR_DEVICE, rc, NULL, "polling failed: %s", strerror(-rc));
        rc = check(run, &wc);
        return rc < 0 ? rc : (int)wc.wr_id;
    }
}

/* Asleep until an event or the next look around; then what has come, also before the CQ was armed again. */
static int sleep_once(const struct probe_run *run, uint64_t until_ns, struct ibv_wc *wc)
{
    int rc = zc_completion_wait(run->completion, run->params->cancel_fd, until_ns);
    if (rc >= 0)
        rc = zc_completion_poll(run->completion, 1, wc);
    if (rc == 0)
        rc = zc_completion_rearm(run->completion);
    if (rc == 0)
        rc = zc_completion_poll(run->completion, 1, wc);
    return rc >= 0 ? rc : zc_error_set(run->err, ZC_ERR_DEVICE, rc, NULL, "waiting for a completion failed: %s", strerror(-rc));
}

/* The CQ was armed before posting. */
static int wait_asleep(const struct probe_run *run)
{
    const uint64_t since_ns = zc_now_ns();
    uint64_t next_check_ns = since_ns + CHECK_INTERVAL_NS;
    for (;;) {
        struct ibv_wc wc;
        int rc = sleep_once(run, next_check_ns, &wc);
        if (rc > 0)
            rc = check(run, &wc);
        else if (rc == 0 && (rc = look_around(run, since_ns, &next_check_ns)) == 0)
            continue;
        return rc < 0 ? rc : (int)wc.wr_id;
    }
}

/* One READ, nothing else in flight. */
static int read_alone(struct probe_run *run, const struct zc_probe_case *is, double *time_s)
{
    int rc = is->event ? zc_completion_rearm(run->completion) : 0;
    if (rc < 0)
        return zc_error_set(run->err, ZC_ERR_DEVICE, rc, NULL, "arming the completion queue failed: %s", strerror(-rc));
    const uint64_t start_ns = zc_now_ns();
    rc = post(run, 0, is->size_bytes);
    if (rc == 0)
        rc = is->event ? wait_asleep(run) : wait_polling(run);
    *time_s = (double)(zc_now_ns() - start_ns) / 1e9;
    return rc;
}

int probe_read_once(struct probe_run *run, uint32_t size_bytes, double *time_s)
{
    return read_alone(run, &(struct zc_probe_case){ .size_bytes = size_bytes, .event = true }, time_s);
}

/* `repeats` completions of a stream that is full before and after. */
static int read_on(struct probe_run *run, const struct zc_probe_case *is, unsigned repeats, double *time_s)
{
    const uint64_t start_ns = zc_now_ns();
    int rc = 0;
    for (unsigned i = 0; i < repeats && rc >= 0; i++) {
        rc = wait_polling(run);
        if (rc >= 0)
            rc = post(run, (uint64_t)rc, is->size_bytes);
    }
    *time_s = (double)(zc_now_ns() - start_ns) / repeats / 1e9;
    return rc;
}

static int read_stream(struct probe_run *run, const struct zc_probe_case *is, size_t *count)
{
    double once_s = 0;
    int rc = 0;
    for (uint64_t slot = 0; slot < is->inflight && rc >= 0; slot++)
        rc = post(run, slot, is->size_bytes);
    if (rc >= 0)
        rc = read_on(run, is, is->inflight, &once_s);
    const unsigned enough = probe_repeats((uint64_t)(once_s * 1e9)), repeats = enough > STREAM_TRIAL_MIN ? enough : STREAM_TRIAL_MIN;
    const uint64_t start_ns = zc_now_ns();
    for (*count = 0; rc >= 0 && probe_more(run, *count, start_ns); ++*count)
        rc = read_on(run, is, repeats, &run->trials_s[*count]);
    for (uint32_t left = is->inflight; left > 0 && rc >= 0; left--)
        rc = wait_polling(run);
    return rc;
}

int probe_read(struct probe_run *run, struct zc_probe_row *row)
{
    size_t count = 0;
    double ignored;
    int rc = 0;
    if (row->is.inflight > 1) {
        rc = read_stream(run, &row->is, &count);
    } else {
        rc = read_alone(run, &row->is, &ignored);
        const uint64_t start_ns = zc_now_ns();
        for (; rc >= 0 && probe_more(run, count, start_ns); count++)
            rc = read_alone(run, &row->is, &run->trials_s[count]);
    }
    if (rc >= 0)
        rc = probe_look(run);
    if (rc < 0)
        return rc;
    zc_probe_set(row, run->trials_s, count);
    return 0;
}

/* ---- QPs and sessions ---- */

static int qp_once(const struct probe_run *run, double *create_s, double *destroy_s, struct zc_error *why)
{
    struct ibv_cq *const cq = zc_completion_cq(run->completion);
    struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
                                     .cap = { .max_send_wr = QP_SLOTS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
    const uint64_t start_ns = zc_now_ns();
    struct ibv_qp *const qp = ibv_create_qp(zc_device_pd(run->params->device), &attr);
    const uint64_t created_ns = zc_now_ns();
    if (!qp)
        return zc_error_set(why, ZC_ERR_RESOURCE, -errno, NULL, "a QP cannot be created: %m");
    zc_count(&zc_counters.qps, 1);
    const int errnum = ibv_destroy_qp(qp);
    const uint64_t end_ns = zc_now_ns();
    if (errnum != 0)
        return zc_error_set(why, ZC_ERR_DEVICE, errnum, NULL, "a QP cannot be destroyed: %s", strerror(errnum));
    zc_count(&zc_counters.qps, -1);
    *create_s = (double)(created_ns - start_ns) / 1e9;
    *destroy_s = (double)(end_ns - created_ns) / 1e9;
    return 0;
}

int probe_qp(struct probe_run *run, struct zc_probe_row *create, struct zc_probe_row *destroy)
{
    struct zc_error why;
    size_t count = 0;
    int rc = 0;
    const uint64_t begin_ns = zc_now_ns();
    for (; probe_more(run, count, begin_ns); count++) {
        rc = qp_once(run, &run->trials_s[count], &run->back_s[count], &why);
        if (rc < 0) {
            probe_unmeasured(create, &why);
            probe_unmeasured(destroy, &why);
            return 0;
        }
    }
    rc = probe_look(run);
    if (rc < 0)
        return rc;
    zc_probe_set(create, run->trials_s, count);
    zc_probe_set(destroy, run->back_s, count);
    return 0;
}

/* A second session beside the one that is open. One that the peer refuses (it has a limit) is no figure, and no end either. */
int probe_session(struct probe_run *run, struct zc_probe_row *connect, struct zc_probe_row *disconnect)
{
    struct zc_completion *completion;
    size_t count = 0;
    int rc = zc_completion_create(run->params->device, ZC_PROBE_INFLIGHT_MAX + 1, &completion, run->err);
    if (rc < 0)
        return rc;
    const uint64_t begin_ns = zc_now_ns();
    for (; rc == 0 && probe_more(run, count, begin_ns); count++) {
        struct zc_connection *connection;
        const uint64_t start_ns = zc_now_ns();
        rc = open_session(run, completion, &connection);
        const uint64_t open_ns = zc_now_ns();
        if (rc < 0)
            break;
        zc_connection_close(connection);
        run->trials_s[count] = (double)(open_ns - start_ns) / 1e9;
        run->back_s[count] = (double)(zc_now_ns() - open_ns) / 1e9;
    }
    zc_completion_destroy(completion);
    if (rc == 0)
        rc = probe_look(run);
    if (rc == 0) {
        zc_probe_set(connect, run->trials_s, count);
        zc_probe_set(disconnect, run->back_s, count);
    } else if (run->err->kind == ZC_ERR_PEER) {
        probe_unmeasured(connect, run->err);
        probe_unmeasured(disconnect, run->err);
        *run->err = (struct zc_error){ .kind = ZC_ERR_NONE };
        rc = 0;
    }
    return rc;
}
