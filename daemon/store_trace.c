/* Traces as files beside the results. See store.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store_private.h"

void store_trace_name(const struct store *store, const char *id, char *path)
{
    snprintf(path, PATH_MAX, "%s/%.*s%s", store->traces, ZC_ID_MAX - 1, id, STORE_SUFFIX);
}

/* Traces whose result was never stored, or was removed by hand. */
void store_remove_orphans(struct store *store)
{
    DIR *folder = opendir(store->traces);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char id[ZC_ID_MAX];
        if (store_id_of_file(entry->d_name, id) && !store_exists(store, id) && store_is_old(dirfd(folder), entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

int store_trace_path(struct store *store, const char *id, char *path, struct zc_error *err)
{
    const int failed = make_folders(store->traces);
    if (failed)
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, "logging", "traces cannot be stored in %s: %s", store->traces,
                            strerror(-failed));
    store_trace_name(store, id, path);
    return 0;
}

int store_trace_read(struct store *store, const char *id, uint64_t offset, char *piece, size_t size, size_t *length,
                     uint64_t *total, struct zc_error *err)
{
    char path[PATH_MAX];
    struct stat stat;
    int failed = store_id_check(id, err);
    if (failed)
        return failed;
    store_trace_name(store, id, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return store_exists(store, id)
                   ? zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "id", "run %s has no trace: it was made without logging", id)
                   : store_not_found(id, err);
    ssize_t got = -1;
    if (fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode))
        got = pread(fd, piece, size, (off_t)offset);
    failed = got < 0 ? (errno ? -errno : -EIO) : 0;
    if (fd >= 0)
        close(fd);
    if (failed)
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, "id", "the trace of %s is unreadable: %s", id, strerror(-failed));
    *length = (size_t)got;
    *total = (uint64_t)stat.st_size;
    return 0;
}
