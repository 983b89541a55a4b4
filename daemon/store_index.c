/* What is known of each file of the results' folder: a sorted array of rows for result.list. See store_private.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store_private.h"
#include "zc_json.h"

/* ---- rows */

static json_t *at(const json_t *document, const char *first, const char *second, const char *third)
{
    json_t *found = json_object_get(document, first);
    if (found && second)
        found = json_object_get(found, second);
    if (found && third)
        found = json_object_get(found, third);
    return found ? json_incref(found) : json_null();
}

/* A sweep has several. */
static json_t *one_size(const json_t *document)
{
    const json_t *size = json_object_get(json_object_get(document, "config"), "size");
    return json_is_integer(size) ? json_incref((json_t *)(uintptr_t)size) : json_null();
}

static json_t *summary(const json_t *document)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "id", at(document, "id", NULL, NULL), "state",
                     at(document, "state", NULL, NULL), "strategy", at(document, json_object_get(document, "kind") ? "kind" : "strategy", NULL, NULL), "peer",
                     at(document, "config", "peer", NULL), "size", one_size(document), "started_at",
                     at(document, "started_at", NULL, NULL), "gib_per_s", at(document, "throughput", "gib_per_s", NULL), "p50_ns",
                     at(document, "latency", "available", "p50_ns"), "device_kind", at(document, "environment", "device", "kind"),
                     "readable", 1);
}

static json_t *unreadable(const char *name, const char *why)
{
    return json_pack("{s:o, s:b, s:o}", "id", zc_json_text(name), "readable", 0, "error", zc_json_text(why));
}

/* ---- entries */

static void entry_destroy(struct store_entry *entry)
{
    if (!entry)
        return;
    free(entry->name);
    free(entry->row);
    free(entry);
}

/* `document` NULL: unreadable because of `why`. NULL without memory. */
static struct store_entry *entry_create(const char *name, const json_t *document, const char *why)
{
    struct store_entry *entry = calloc(1, sizeof *entry);
    json_t *row = document ? summary(document) : unreadable(name, why), *owner = json_object_get(document, "owner_uid");
    if (entry) {
        entry->name = strdup(name);
        entry->row = row ? json_dumps(row, ZC_JSON_MESSAGE) : NULL;
        entry->owner_uid = json_is_integer(owner) ? (uint64_t)json_integer_value(owner) : ZC_UNMEASURED;
    }
    json_decref(row);
    if (entry && entry->name && entry->row)
        return entry;
    entry_destroy(entry);
    return NULL;
}

/* The place of `name`, or where it belongs: the number of entries whose names are greater. */
static size_t find(const struct store *store, const char *name, bool *found)
{
    size_t low = 0, high = store->entry_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(store->entries[middle]->name, name) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < store->entry_count && strcmp(store->entries[low]->name, name) == 0;
    return low;
}

/* Takes the entry over; true if it is one more. The lock is held. */
static bool insert(struct store *store, struct store_entry *entry)
{
    bool found;
    const size_t place = find(store, entry->name, &found);
    entry->scan = store->scan;
    if (found) {
        entry_destroy(store->entries[place]);
        store->entries[place] = entry;
        return false;
    }
    if (store->entry_count == store->entry_capacity) {
        const size_t capacity = store->entry_capacity ? 2 * store->entry_capacity : 64;
        struct store_entry **grown = realloc(store->entries, capacity * sizeof(struct store_entry *));
        if (!grown) {
            entry_destroy(entry);       /* the next look tries again */
            return false;
        }
        store->entries = grown;
        store->entry_capacity = capacity;
    }
    memmove(store->entries + place + 1, store->entries + place, (store->entry_count - place) * sizeof(struct store_entry *));
    store->entries[place] = entry;
    store->entry_count++;
    return true;
}

void store_index_put(struct store *store, const char *id, const json_t *document)
{
    struct store_entry *entry = entry_create(id, document, NULL);
    if (!entry)
        return;
    pthread_mutex_lock(&store->lock);
    if (insert(store, entry))
        atomic_fetch_add(&store->count, 1);
    pthread_mutex_unlock(&store->lock);
}

void store_index_remove(struct store *store, const char *id)
{
    bool found;
    pthread_mutex_lock(&store->lock);
    const size_t place = find(store, id, &found);
    if (found) {
        entry_destroy(store->entries[place]);
        store->entry_count--;
        memmove(store->entries + place, store->entries + place + 1, (store->entry_count - place) * sizeof(struct store_entry *));
    }
    if (atomic_load(&store->count))
        atomic_fetch_sub(&store->count, 1);
    pthread_mutex_unlock(&store->lock);
}

void store_index_destroy(struct store *store)
{
    for (size_t i = 0; i < store->entry_count; i++)
        entry_destroy(store->entries[i]);
    free(store->entries);
}

/* ---- looking at the folder */

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*b)->d_name, (*a)->d_name);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size
           && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* True if the file is known as it is now. What we wrote ourselves is taken for what was written. */
static bool known(struct store *store, const char *name, const struct stat *stat)
{
    bool found;
    pthread_mutex_lock(&store->lock);
    const size_t place = find(store, name, &found);
    if (found) {
        struct store_entry *entry = store->entries[place];
        if (entry->stat.st_ino == 0)
            entry->stat = *stat;
        found = same_file(&entry->stat, stat);
        entry->scan = store->scan;
    }
    pthread_mutex_unlock(&store->lock);
    return found;
}

static void look_at(struct store *store, int folder_fd, const char *file)
{
    char id[ZC_ID_MAX], why[256] = "not the name of a result";
    struct stat stat;
    int errnum;
    if (fstatat(folder_fd, file, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    const bool ours = store_id_of_file(file, id);
    const char *name = ours ? id : file;
    if (known(store, name, &stat))
        return;
    json_t *document = ours ? store_load(store, id, why, sizeof why, &errnum) : NULL;
    struct store_entry *entry = entry_create(name, document, why);
    json_decref(document);
    if (!entry)
        return;
    entry->stat = stat;
    pthread_mutex_lock(&store->lock);
    insert(store, entry);
    pthread_mutex_unlock(&store->lock);
}

static void forget_unseen(struct store *store)
{
    size_t kept = 0;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->entry_count; i++) {
        if (store->entries[i]->scan == store->scan)
            store->entries[kept++] = store->entries[i];
        else
            entry_destroy(store->entries[i]);
    }
    store->entry_count = kept;
    atomic_store(&store->count, kept);
    pthread_mutex_unlock(&store->lock);
}

int store_refresh(struct store *store, struct zc_error *err)
{
    struct dirent **files;
    pthread_mutex_lock(&store->lock);
    store->scan++;          /* what is written from here on counts as seen */
    pthread_mutex_unlock(&store->lock);
    const int folder_fd = open(store->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int count = folder_fd >= 0 ? scandir(store->folder, &files, store_visible, newest_first) : -1;
    if (count < 0) {
        const int failed = -errno;
        if (folder_fd >= 0)
            close(folder_fd);
        if (failed != -ENOENT)
            return zc_error_set(err, ZC_ERR_RESOURCE, failed, NULL, "cannot list %s: %s", store->folder, strerror(-failed));
        forget_unseen(store);           /* nothing was ever stored */
        return 0;
    }
    for (int i = 0; i < count; i++) {
        look_at(store, folder_fd, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    close(folder_fd);
    forget_unseen(store);
    return 0;
}

/* ---- asking */

int store_page(struct store *store, const char *before, size_t limit, json_t **rows, char *next)
{
    json_t *page = json_array();
    bool found = false;
    if (!page)
        return -ENOMEM;
    pthread_mutex_lock(&store->lock);
    size_t place = before ? find(store, before, &found) : 0;
    place += found;
    for (; place < store->entry_count && json_array_size(page) < limit; place++)
        json_array_append_new(page, json_loads(store->entries[place]->row, 0, NULL));
    snprintf(next, NAME_MAX + 1, "%s", place < store->entry_count && place > 0 ? store->entries[place - 1]->name : "");
    pthread_mutex_unlock(&store->lock);
    *rows = page;
    return 0;
}

bool store_owner(struct store *store, const char *id, uint64_t *owner_uid)
{
    bool found;
    pthread_mutex_lock(&store->lock);
    const size_t place = find(store, id, &found);
    if (found)
        *owner_uid = store->entries[place]->owner_uid;
    pthread_mutex_unlock(&store->lock);
    if (found || !store_id_valid(id))
        return found;
    char why[256];
    int errnum;
    json_t *document = store_load(store, id, why, sizeof why, &errnum);
    json_t *owner = json_object_get(document, "owner_uid");
    if (document)
        *owner_uid = json_is_integer(owner) ? (uint64_t)json_integer_value(owner) : ZC_UNMEASURED;
    json_decref(document);
    return document != NULL;
}

/* ---- the limit */

void store_prune(struct store *store)
{
    const size_t max_results = atomic_load(&store->max_results);
    size_t results = 0;
    struct dirent **files;
    if (max_results == 0 || store_count(store) <= max_results)
        return;
    const int count = scandir(store->folder, &files, store_visible, newest_first);
    for (int i = 0; i < count; i++) {
        char id[ZC_ID_MAX];
        struct zc_error ignored;
        if (store_id_of_file(files[i]->d_name, id) && ++results > max_results)
            store_delete(store, id, &ignored);
        free(files[i]);
    }
    if (count >= 0)
        free(files);
}
