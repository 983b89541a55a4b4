/* zc_conformance: what does this RDMA device answer? Runs on whatever device is there, each check in a process of its own
 * with a deadline, and prints a line a check: name, answer, expected answer, "ok" or "differs". */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "pair.h"

#define DEADLINE_MS 40000

static const struct check *const tables[] = {
    state_checks,  create_checks, post_checks,   data_checks, order_checks, access_checks,   failure_checks, flush_checks,
    memory_checks, window_checks, cq_checks,     srq_checks,  event_checks, extended_checks, cm_checks,      cm_end_checks,
};

struct options {
    bool list, strict;
    const char *only, *json;
};

static _Noreturn void child(const struct check *c, int fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    answer_to(fd);
    c->run(c->arg);
    _exit(0);
}

/* Appends a remark to what the check has said so far. */
static void remark(char *answer, size_t size, const char *text)
{
    size_t n = strlen(answer);
    snprintf(answer + n, size - n, "%s%s", n ? ", " : "", text);
}

/* A process in the kernel's hands may not die at once: it is not waited for longer than is decent. */
static void reap(pid_t pid, char *answer, size_t size)
{
    int status;
    for (int i = 0; i < 500; i++, usleep(10000)) {
        if (waitpid(pid, &status, WNOHANG) != pid)
            continue;
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
            remark(answer, size, "died of SIG");
            size_t n = strlen(answer);
            snprintf(answer + n, size - n, "%s", sigabbrev_np(WTERMSIG(status)));
        }
        return;
    }
    remark(answer, size, "cannot be killed");
}

static void run_check(const struct check *c, char *answer, size_t size)
{
    int fd[2];
    size_t got = 0;
    answer[0] = 0;
    fflush(NULL);
    if (pipe(fd)) {
        perror("pipe");
        exit(2);
    }
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        close(fd[0]);
        child(c, fd[1], parent);
    }
    close(fd[1]);
    for (uint64_t until = now_ms() + DEADLINE_MS;;) {
        struct pollfd p = {.fd = fd[0], .events = POLLIN};
        uint64_t now = now_ms();
        ssize_t n = now < until && poll(&p, 1, (int)(until - now)) == 1 ? read(fd[0], answer + got, size - 1 - got) : -1;
        if (n > 0) {
            got += (size_t)n;
            answer[got] = 0;
        } else if (n == 0) {
            break;
        } else if (now >= until) {
            remark(answer, size, "hangs");
            kill(pid, SIGKILL);
            break;
        }
    }
    close(fd[0]);
    reap(pid, answer, size);
}

static bool is_expected(const char *answer, const char *expected)
{
    size_t n = strlen(answer);
    for (const char *s = expected; s; s = strstr(s, " | ") ? strstr(s, " | ") + 3 : NULL)
        if (strncmp(s, answer, n) == 0 && (s[n] == 0 || strncmp(s + n, " | ", 3) == 0))
            return true;
    return false;
}

static const char *device_name(void)
{
    static char name[64] = "none";
    int fd[2];
    if (pipe(fd))
        return name;
    pid_t pid = fork(); /* this process must not touch the device: its children are to do that */
    if (pid == 0) {
        struct ibv_device **list = ibv_get_device_list(NULL);
        const char *s = list && list[0] ? ibv_get_device_name(list[0]) : "none";
        _exit(write(fd[1], s, strlen(s)) < 0);
    }
    close(fd[1]);
    ssize_t n = read(fd[0], name, sizeof name - 1);
    if (n > 0)
        name[n] = 0;
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return name;
}

static int save(const char *file, json_t *checks, const char *device)
{
    json_t *top = json_pack("{s:s, s:o}", "device", device, "checks", checks);
    int bad = !top || json_dump_file(top, file, JSON_INDENT(1));
    if (bad)
        fprintf(stderr, "%s: cannot be written\n", file);
    json_decref(top);
    return bad;
}

static int run_all(const struct options *o)
{
    static char answer[1024];
    json_t *all = json_array();
    const char *device = device_name();
    int count = 0, differ = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct check *c = tables[t]; c->name; c++) {
            if (o->only && strcmp(o->only, c->name))
                continue;
            run_check(c, answer, sizeof answer);
            bool ok = is_expected(answer, c->expected);
            printf("%s\t%s\t%s\t%s\n", c->name, answer, c->expected, ok ? "ok" : "differs");
            json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", c->name, "answer", answer, "expected",
                                                 c->expected, "clause", c->clause, "ok", ok));
            count++;
            differ += !ok;
        }
    fprintf(stderr, "%s: %d checks, %d not as the specification expects\n", device, count, differ);
    if (o->json && save(o->json, all, device))
        return 2;
    if (!count)
        fprintf(stderr, "no such check\n");
    return !count || (o->strict && differ);
}

static void list_all(void)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct check *c = tables[t]; c->name; c++)
            printf("%s\t%s\t%s\n", c->name, c->expected, c->clause);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"list", no_argument, NULL, 'l'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"json", required_argument, NULL, 'j'},
                                          {"strict", no_argument, NULL, 's'},
                                          {0}};
    struct options o = {0};
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;)
        switch (c) {
        case 'l':
            o.list = true;
            break;
        case 'o':
            o.only = optarg;
            break;
        case 'j':
            o.json = optarg;
            break;
        case 's':
            o.strict = true;
            break;
        default:
            fprintf(stderr, "usage: zc_conformance [--list] [--only NAME] [--json FILE] [--strict]\n");
            return 2;
        }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (o.list)
        return list_all(), 0;
    return run_all(&o);
}
