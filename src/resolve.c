/* Resolution in a helper thread, which outlives an impatient caller: see resolve.h. */
#include "resolve.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"

/* Shared by the caller and the thread; whoever lets go last frees it. */
struct query {
    atomic_int owners;
    atomic_bool done;       /* what follows was written before it */
    int done_fd;
    int answer;             /* of getaddrinfo(3) */
    int system_errno;       /* with EAI_SYSTEM */
    char host[NI_MAXHOST], service[8];
    struct addrinfo *found;
};

static void query_release(struct query *query)
{
    if (atomic_fetch_sub(&query->owners, 1) > 1)
        return;
    if (query->found)
        freeaddrinfo(query->found);
    close(query->done_fd);
    free(query);
}

static void query_ask(struct query *query, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    query->answer = getaddrinfo(query->host, query->service, &hints, &query->found);
    query->system_errno = errno;
}

static void *query_thread(void *arg)
{
    struct query *query = arg;
    query_ask(query, AI_ADDRCONFIG);
    atomic_store(&query->done, true);
    eventfd_write(query->done_fd, 1);
    query_release(query);
    return NULL;
}

static struct query *query_create(const char *host, uint16_t port)
{
    struct query *query = calloc(1, sizeof(*query));
    if (!query)
        return NULL;
    query->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (query->done_fd < 0) {
        free(query);
        return NULL;
    }
    atomic_init(&query->owners, 1);
    snprintf(query->host, sizeof(query->host), "%s", host);
    snprintf(query->service, sizeof(query->service), "%u", port);
    return query;
}

int zc_wait_readable(int fd, int cancel_fd, uint64_t deadline_ns)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = cancel_fd, .events = POLLIN}};
    for (;;) {
        uint64_t now_ns = zc_now_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000u), .tv_nsec = (long)(left_ns % 1000000000u)};
        int ready = ppoll(fds, 2, &left, NULL);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready > 0 && fds[1].revents)
            return -ECANCELED;
        if (ready > 0)
            return 0;
        if (ready == 0)
            return -ETIMEDOUT;
    }
}

static int query_run(struct query *query, uint64_t deadline_ns, int cancel_fd)
{
    /* Numeric addresses need no name service and no thread. */
    query_ask(query, AI_NUMERICHOST);
    if (query->answer == 0)
        return 0;

    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    atomic_fetch_add(&query->owners, 1);
    int rc = pthread_create(&thread, &attr, query_thread, query);
    pthread_attr_destroy(&attr);
    if (rc) {
        atomic_fetch_sub(&query->owners, 1);
        return -rc;
    }
    rc = zc_wait_readable(query->done_fd, cancel_fd, deadline_ns);
    return rc == 0 && !atomic_load(&query->done) ? -EIO : rc;
}

static int query_take(const struct query *query, const char *host, struct zc_addresses *addresses, struct zc_error *err)
{
    if (query->answer != 0)
        return zc_error_set(err, ZC_ERR_PEER, -EHOSTUNREACH, "peer", "peer '%s' does not resolve: %s", host,
                            query->answer == EAI_SYSTEM ? strerror(query->system_errno) : gai_strerror(query->answer));
    size_t count = 0;
    for (const struct addrinfo *a = query->found; a && count < ZC_RESOLVE_MAX; a = a->ai_next) {
        if (a->ai_addrlen > sizeof(addresses->list[0]))
            continue;
        memset(&addresses->list[count], 0, sizeof(addresses->list[count]));
        memcpy(&addresses->list[count++], a->ai_addr, a->ai_addrlen);
    }
    addresses->count = count;
    return count ? 0 : zc_error_set(err, ZC_ERR_PEER, -EHOSTUNREACH, "peer", "peer '%s' has no IP address", host);
}

int zc_resolve(const char *host, uint16_t port, uint64_t deadline_ns, int cancel_fd, struct zc_addresses *addresses,
               struct zc_error *err)
{
    if (strlen(host) >= NI_MAXHOST)
        return zc_error_set(err, ZC_ERR_INVALID, -ENAMETOOLONG, "peer", "peer '%.64s...' is not a host name", host);
    struct query *query = query_create(host, port);
    if (!query)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "cannot resolve peer '%s': %m", host);
    int rc = query_run(query, deadline_ns, cancel_fd);
    if (rc == 0)
        rc = query_take(query, host, addresses, err);
    else if (rc != -ETIMEDOUT && rc != -ECANCELED)
        zc_error_set(err, ZC_ERR_RESOURCE, rc, NULL, "cannot resolve peer '%s': %s", host, strerror(-rc));
    query_release(query);
    return rc;
}
