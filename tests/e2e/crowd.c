/* e2e_crowd: many sessions in one process, by libzcrdma. The end-to-end tests and tests/bench start several of it against one zcrdmad.
 *   e2e_crowd HOST PORT hold SESSIONS QPS    opens them, says "open N", or "refused ..." for the first that is not, and reads through
 *                                            all of them until its stdin ends; then it says "reads N", or "lost ..." before
 *   e2e_crowd HOST PORT die ROUNDS           so many processes, eight at a time, each with a session that READs: all of them are
 *                                            killed in the middle; then "died N"
 *   e2e_crowd HOST PORT turns QPS            for each line of its stdin, which is a number of seconds: opens and closes sessions, one
 *                                            after the other, for so long; then "turns N NS", sessions and nanoseconds */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "zc.h"

enum { READ_BYTES = 4096, TIMEOUT_MS = 60000, AT_A_TIME = 8 };

struct member {
    struct zc_completion *completion;
    struct zc_connection *connection;
};

struct crowd {
    struct zc_device *device;
    struct zc_buffer buffer;
    struct ibv_mr *mr;
    struct member *members;
    uint32_t count;
    uint64_t reads;
};

static void die(const char *what)
{
    fprintf(stderr, "e2e_crowd: %s\n", what);
    exit(1);
}

static void say(const char *word, const char *rest)
{
    printf("%s %s\n", word, rest);
    fflush(stdout);
}

static void say_count(const char *word, uint64_t count)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)count);
    say(word, text);
}

static void open_device(struct crowd *crowd)
{
    struct zc_error err = { 0 };
    if (zc_device_open(NULL, &crowd->device, &err) || zc_buffer_create(READ_BYTES, -1, &crowd->buffer, &err) ||
        zc_mr_register(crowd->device, crowd->buffer.address, READ_BYTES, IBV_ACCESS_LOCAL_WRITE, "a page", &crowd->mr, &err))
        die(err.message);
}

/* False: refused, and said so. */
static bool join(struct crowd *crowd, const char *host, uint16_t port, uint32_t qps)
{
    struct member *member = &crowd->members[crowd->count];
    struct zc_error err = { 0 };
    if (zc_completion_create(crowd->device, 64 * (int)qps, &member->completion, &err))
        die(err.message);
    const struct zc_connection_params params = { .host = host, .port = port, .qps = qps, .send_slots = 8, .timeout_ms = TIMEOUT_MS,
                                                 .cancel_fd = -1, .completion = member->completion };
    if (zc_connection_open(crowd->device, &params, &member->connection, &err)) {
        say("refused", err.message);
        zc_completion_destroy(member->completion);
        return false;
    }
    crowd->count++;
    return true;
}

static void post(const struct crowd *crowd, const struct member *member, uint32_t qp)
{
    struct ibv_sge sge = { .addr = (uintptr_t)crowd->buffer.address, .length = READ_BYTES, .lkey = crowd->mr->lkey };
    struct ibv_send_wr wr;
    zc_wr_read(&wr, qp, &sge, 1, zc_connection_remote(member->connection)->address, zc_connection_rkey(member->connection, qp),
               IBV_SEND_SIGNALED);
    if (zc_post_send(zc_connection_qp(member->connection, qp), &wr, NULL, NULL))
        die("a READ was not accepted");
}

/* One READ on each QP that has none in flight; a session that is lost is said once and ends the crowd. */
static void turn(struct crowd *crowd, struct member *member)
{
    struct ibv_wc wcs[64];
    struct zc_error err = { 0 };
    int count = zc_completion_poll(member->completion, 64, wcs);
    for (int i = 0; i < count; i++) {
        if (wcs[i].status != IBV_WC_SUCCESS) {
            zc_connection_check(member->connection, &err);
            say("lost", err.message[0] ? err.message : ibv_wc_status_str(wcs[i].status));
            exit(1);
        }
        crowd->reads++;
        post(crowd, member, (uint32_t)wcs[i].wr_id);
    }
    if (zc_connection_check(member->connection, &err)) {
        say("lost", err.message);
        exit(1);
    }
}

static bool stdin_ended(void)
{
    struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
    return poll(&fd, 1, 10) > 0;
}

static void hold(const char *host, uint16_t port, uint32_t sessions, uint32_t qps)
{
    struct crowd crowd = { .members = calloc(sessions, sizeof *crowd.members) };
    open_device(&crowd);
    while (crowd.count < sessions && join(&crowd, host, port, qps))
        ;
    say_count("open", crowd.count);
    for (uint32_t i = 0; i < crowd.count; i++)
        for (uint32_t qp = 0; qp < qps; qp++)
            post(&crowd, &crowd.members[i], qp);
    while (!stdin_ended())
        for (uint32_t i = 0; i < crowd.count; i++)
            turn(&crowd, &crowd.members[i]);
    for (uint32_t i = 0; i < crowd.count; i++) {
        zc_connection_close(crowd.members[i].connection);
        zc_completion_destroy(crowd.members[i].completion);
    }
    zc_mr_deregister(crowd.mr);
    zc_buffer_destroy(&crowd.buffer);
    zc_device_close(crowd.device);
    free(crowd.members);
    say_count("reads", crowd.reads);
}

static void take_turns(struct crowd *crowd, const char *host, uint16_t port, uint32_t qps, uint64_t seconds)
{
    const uint64_t begin_ns = zc_now_ns();
    uint64_t turns = 0, now_ns;
    char text[48];
    do {
        if (!join(crowd, host, port, qps))
            exit(1);
        crowd->count--;
        zc_connection_close(crowd->members[0].connection);
        zc_completion_destroy(crowd->members[0].completion);
        turns++;
        now_ns = zc_now_ns();
    } while (now_ns - begin_ns < seconds * 1000000000u);
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)turns, (unsigned long long)(now_ns - begin_ns));
    say("turns", text);
}

static void turns_on_demand(const char *host, uint16_t port, uint32_t qps)
{
    struct member member = { 0 };
    struct crowd crowd = { .members = &member };
    char line[16];
    open_device(&crowd);
    while (fgets(line, sizeof line, stdin))
        take_turns(&crowd, host, port, qps, strtoull(line, NULL, 10));
    zc_mr_deregister(crowd.mr);
    zc_buffer_destroy(&crowd.buffer);
    zc_device_close(crowd.device);
}

static void live_and_die(const char *host, uint16_t port)
{
    struct member member = { 0 };
    struct crowd crowd = { .members = &member };
    open_device(&crowd);
    if (!join(&crowd, host, port, 1))
        exit(1);
    for (int i = 0; i < 8; i++)
        post(&crowd, &member, 0);
    raise(SIGKILL);
}

static void wait_for_one(uint32_t *died)
{
    int status;
    if (wait(&status) < 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        die("one that should have been killed ended otherwise");
    ++*died;
}

static void die_in_rounds(const char *host, uint16_t port, uint32_t rounds)
{
    uint32_t died = 0;
    for (uint32_t born = 0; born < rounds; born++) {
        if (born - died == AT_A_TIME)
            wait_for_one(&died);
        pid_t child = fork();
        if (child == 0)
            live_and_die(host, port);
        if (child < 0)
            die("fork failed");
    }
    while (died < rounds)
        wait_for_one(&died);
    say_count("died", died);
}

int main(int argc, char **argv)
{
    const uint16_t port = argc > 2 ? (uint16_t)atoi(argv[2]) : 0;
    if (argc == 6 && !strcmp(argv[3], "hold"))
        hold(argv[1], port, (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]));
    else if (argc == 5 && !strcmp(argv[3], "die"))
        die_in_rounds(argv[1], port, (uint32_t)atoi(argv[4]));
    else if (argc == 5 && !strcmp(argv[3], "turns"))
        turns_on_demand(argv[1], port, (uint32_t)atoi(argv[4]));
    else
        die("usage: HOST PORT hold SESSIONS QPS | HOST PORT die ROUNDS | HOST PORT turns QPS");
    return 0;
}
