/* The registration cache: see mr_cache.h. The lock is held for looking up and for bookkeeping, never while something is registered or
 * deregistered. An entry is in the index as long as it may be given out, and among the idle ones as long as nobody uses it. */
#include "mr_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "memory.h"
#include "mr_index.h"

struct zc_mr_entry {
    struct zc_mr_node node;             /* first: a node of the index is its entry */
    TAILQ_ENTRY(zc_mr_entry) link;      /* idle, free, or about to be deregistered */
    struct ibv_mr *mr;                  /* NULL: free, or being registered */
    uint32_t users;
    bool indexed;
};
TAILQ_HEAD(list, zc_mr_entry);

struct zc_mr_cache {
    struct zc_mr_cache_params params;
    uintptr_t page;
    pthread_mutex_t lock;
    struct zc_mr_index index;
    struct list idle;                   /* the one used last at the end */
    struct list free;
    struct zc_mr_entry *entries;
    uint32_t fresh;                     /* entries from this one on have never been used: not touched before they are needed */
    uint32_t leaving;                   /* withdrawn, their records not free yet */
    pthread_cond_t left;                /* one of them is */
    uint64_t changes;                   /* calls of forget so far */
    struct zc_mr_cache_stats stats;
};

int zc_mr_cache_create(const struct zc_mr_cache_params *params, struct zc_mr_cache **cache, struct zc_error *err)
{
    struct zc_mr_cache *const made = calloc(1, sizeof *made);
    struct zc_mr_entry *const entries = calloc(params->max_entries, sizeof *entries);
    if (!made || !entries) {
        free(made);
        free(entries);
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory for a cache of %" PRIu32 " registrations",
                            params->max_entries);
    }
    made->params = *params;
    made->entries = entries;
    made->page = (uintptr_t)sysconf(_SC_PAGESIZE);
    RB_INIT(&made->index);
    TAILQ_INIT(&made->idle);
    TAILQ_INIT(&made->free);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->left, NULL);
    *cache = made;
    return 0;
}

/* Also what could not be deregistered before: one try more. */
void zc_mr_cache_destroy(struct zc_mr_cache *cache)
{
    if (!cache)
        return;
    for (uint32_t i = 0; i < cache->fresh; i++)
        zc_mr_deregister(cache->entries[i].mr);
    pthread_cond_destroy(&cache->left);
    pthread_mutex_destroy(&cache->lock);
    free(cache->entries);
    free(cache);
}

uint32_t zc_mr_entry_lkey(const struct zc_mr_entry *entry)
{
    return entry->mr->lkey;
}

/* --- with the lock held ---------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct zc_mr_entry *entry)
{
    return entry->node.end - entry->node.first;
}

static struct zc_mr_entry *take_found(struct zc_mr_cache *cache, uintptr_t first, uintptr_t end)
{
    struct zc_mr_entry *const entry = (struct zc_mr_entry *)zc_mr_index_covering(&cache->index, first, end);
    if (!entry)
        return NULL;
    if (entry->users++ == 0)
        TAILQ_REMOVE(&cache->idle, entry, link);
    cache->stats.hits++;
    return entry;
}

/* Nobody will find it any more. */
static void withdraw(struct zc_mr_cache *cache, struct zc_mr_entry *entry, struct list *victims)
{
    if (entry->indexed)
        zc_mr_index_remove(&cache->index, &entry->node);
    entry->indexed = false;
    if (entry->users > 0)
        return;                         /* deregistered when it is put back */
    TAILQ_REMOVE(&cache->idle, entry, link);
    TAILQ_INSERT_TAIL(victims, entry, link);
    cache->leaving++;
}

static struct zc_mr_entry *take_record(struct zc_mr_cache *cache)
{
    struct zc_mr_entry *entry = TAILQ_FIRST(&cache->free);
    if (entry)
        TAILQ_REMOVE(&cache->free, entry, link);
    else if (cache->fresh < cache->params.max_entries)
        entry = &cache->entries[cache->fresh++];
    return entry;
}

/* Who goes for another `bytes` and a record. */
static void make_room(struct zc_mr_cache *cache, uint64_t bytes, struct list *victims)
{
    const uint64_t most = cache->params.max_bytes;
    uint64_t held = cache->stats.bytes;
    bool record = cache->fresh < cache->params.max_entries || !TAILQ_EMPTY(&cache->free);
    struct zc_mr_entry *oldest;
    while ((!record || held + bytes > most) && (oldest = TAILQ_FIRST(&cache->idle)) != NULL) {
        held -= bytes_of(oldest);
        withdraw(cache, oldest, victims);
        cache->stats.evictions++;
        record = true;
    }
}

/* --- registering and deregistering, without the lock ------------------------------------------------------------ */

/* Deregister what was withdrawn and give the entries back; one that the device does not let go keeps its MR, for the end. */
static int drop(struct zc_mr_cache *cache, struct list *victims)
{
    struct zc_mr_entry *entry;
    int failed = 0;
    while ((entry = TAILQ_FIRST(victims)) != NULL) {
        TAILQ_REMOVE(victims, entry, link);
        const int rc = zc_mr_deregister(entry->mr);
        pthread_mutex_lock(&cache->lock);
        if (rc == 0) {
            entry->mr = NULL;
            cache->stats.bytes -= bytes_of(entry);
            cache->stats.entries--;
            TAILQ_INSERT_HEAD(&cache->free, entry, link);
        }
        cache->leaving--;
        pthread_cond_broadcast(&cache->left);
        pthread_mutex_unlock(&cache->lock);
        failed = rc < 0 ? rc : failed;
    }
    return failed;
}

/* A record, whatever has to go for it; other threads may be taking records meanwhile, or letting some go. */
static int free_record(struct zc_mr_cache *cache, uint64_t bytes, struct zc_mr_entry **entry, struct zc_error *err)
{
    struct list victims = TAILQ_HEAD_INITIALIZER(victims);
    int rc = 0;
    pthread_mutex_lock(&cache->lock);
    for (;;) {
        make_room(cache, bytes, &victims);
        if (!TAILQ_EMPTY(&victims)) {
            pthread_mutex_unlock(&cache->lock);
            rc = drop(cache, &victims);
            pthread_mutex_lock(&cache->lock);
        }
        *entry = rc == 0 ? take_record(cache) : NULL;
        if (rc < 0 || *entry || (TAILQ_EMPTY(&cache->idle) && cache->leaving == 0))
            break;
        if (TAILQ_EMPTY(&cache->idle))
            pthread_cond_wait(&cache->left, &cache->lock);
    }
    if (*entry) {
        cache->stats.bytes += bytes;
        cache->stats.entries++;
    }
    pthread_mutex_unlock(&cache->lock);
    if (rc < 0)
        return zc_error_set(err, ZC_ERR_DEVICE, rc, NULL, "deregistering cached memory failed: %s", strerror(-rc));
    if (!*entry)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOBUFS, NULL, "more than %" PRIu32 " cached registrations in use at once",
                            cache->params.max_entries);
    return 0;
}

static int register_entry(struct zc_mr_cache *cache, struct zc_mr_entry *entry, uint64_t changes, struct zc_error *err)
{
    struct ibv_mr *mr = NULL;
    const int rc = zc_mr_register(cache->params.device, (void *)entry->node.first, bytes_of(entry), cache->params.access,
                                  "the user's buffer", &mr, err);
    pthread_mutex_lock(&cache->lock);
    entry->mr = mr;
    if (rc < 0) {
        cache->stats.bytes -= bytes_of(entry);
        cache->stats.entries--;
        TAILQ_INSERT_HEAD(&cache->free, entry, link);
    } else if (changes == cache->changes) {     /* else it may be memory that was forgotten meanwhile: good for this once */
        entry->indexed = zc_mr_index_add(&cache->index, &entry->node);
    }
    pthread_mutex_unlock(&cache->lock);
    return rc;
}

static void pages_around(const struct zc_mr_cache *cache, const void *address, uint64_t length, uintptr_t *first, uintptr_t *end)
{
    const uintptr_t mask = cache->page - 1, at = (uintptr_t)address;
    *first = at & ~mask;
    *end = (at + length + mask) & ~mask;
}

/* --- for the user ---------------------------------------------------------------------------------------------- */

struct zc_mr_entry *zc_mr_cache_find(struct zc_mr_cache *cache, void *address, uint64_t length_bytes)
{
    pthread_mutex_lock(&cache->lock);
    struct zc_mr_entry *const entry = take_found(cache, (uintptr_t)address, (uintptr_t)address + length_bytes);
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

int zc_mr_cache_get(struct zc_mr_cache *cache, void *address, uint64_t length_bytes, struct zc_mr_entry **entry, struct zc_error *err)
{
    uintptr_t first, end;
    pages_around(cache, address, length_bytes, &first, &end);
    pthread_mutex_lock(&cache->lock);
    struct zc_mr_entry *got = take_found(cache, (uintptr_t)address, (uintptr_t)address + length_bytes);
    const uint64_t changes = cache->changes;
    if (!got)
        cache->stats.misses++;
    pthread_mutex_unlock(&cache->lock);
    if (got) {
        *entry = got;
        return 0;
    }

    int rc = free_record(cache, end - first, &got, err);
    if (rc < 0)
        return rc;
    got->node = (struct zc_mr_node){.first = first, .end = end};
    got->users = 1;
    rc = register_entry(cache, got, changes, err);
    if (rc == 0)
        *entry = got;
    return rc;
}

int zc_mr_cache_put(struct zc_mr_cache *cache, struct zc_mr_entry *entry)
{
    struct list victims = TAILQ_HEAD_INITIALIZER(victims);
    pthread_mutex_lock(&cache->lock);
    if (--entry->users == 0) {
        TAILQ_INSERT_TAIL(&cache->idle, entry, link);
        if (!entry->indexed || cache->stats.bytes > cache->params.max_bytes)
            withdraw(cache, entry, &victims);
    }
    pthread_mutex_unlock(&cache->lock);
    return drop(cache, &victims);
}

int zc_mr_cache_forget(struct zc_mr_cache *cache, void *address, uint64_t length_bytes)
{
    struct list victims = TAILQ_HEAD_INITIALIZER(victims);
    struct zc_mr_node *node;
    const uintptr_t first = (uintptr_t)address, end = first + length_bytes;
    if (length_bytes == 0)
        return 0;
    pthread_mutex_lock(&cache->lock);
    cache->changes++;
    while ((node = zc_mr_index_touching(&cache->index, first, end)) != NULL) {
        withdraw(cache, (struct zc_mr_entry *)node, &victims);
        cache->stats.forgotten++;
    }
    pthread_mutex_unlock(&cache->lock);
    return drop(cache, &victims);
}

void zc_mr_cache_stats(struct zc_mr_cache *cache, struct zc_mr_cache_stats *stats)
{
    pthread_mutex_lock(&cache->lock);
    *stats = cache->stats;
    pthread_mutex_unlock(&cache->lock);
}
