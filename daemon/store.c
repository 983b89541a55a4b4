/* The results on disk. See store.h. */
#include "store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store_private.h"
#include "zc_json.h"

enum {
    DOCUMENT_MAX_BYTES = 64 << 20,              /* a foreign file must not fill the memory */
    TEMPORARY_AGE_S = 60,
};

static const char TEMPORARY[] = ".new-";

static bool digits(const char *text, size_t count, int (*is)(int))
{
    for (size_t i = 0; i < count; i++)
        if (!is((unsigned char)text[i]))
            return false;
    return true;
}

bool store_id_valid(const char *id)
{
    enum { TIME = 16, TAIL = 5 };       /* 20261129T190102Z, -3f9a */
    size_t length = strlen(id);
    if (length >= ZC_ID_MAX || length <= TIME + 1 + TAIL)
        return false;
    if (!digits(id, 8, isdigit) || id[8] != 'T' || !digits(id + 9, 6, isdigit) || id[15] != 'Z' || id[16] != '-')
        return false;
    const char *tail = id + length - TAIL;
    if (tail[0] != '-' || !digits(tail + 1, TAIL - 1, isxdigit))
        return false;
    for (const char *c = id + TIME + 1; c < tail; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '_')
            return false;
    return true;
}

int make_folders(const char *path)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return -ENAMETOOLONG;
    for (char *slash = part + 1; ; slash++) {
        slash = strchr(slash, '/');
        if (slash)
            *slash = 0;
        if (mkdir(part, 0755) != 0) {
            int failed = errno == EEXIST ? -ENOTDIR : -errno;
            struct stat stat_;
            if (stat(part, &stat_) != 0 || !S_ISDIR(stat_.st_mode))     /* EROFS and EACCES come for existing ones too */
                return failed;
        }
        if (!slash)
            return 0;
        *slash = '/';
    }
}

struct store *store_create(const char *state_dir)
{
    struct store *store = calloc(1, sizeof *store);
    if (store && ((size_t)snprintf(store->folder, sizeof store->folder, "%s/results", state_dir) >= sizeof store->folder
                  || (size_t)snprintf(store->traces, sizeof store->traces, "%s/traces", state_dir) >= sizeof store->traces)) {
        free(store);
        return NULL;
    }
    if (store)
        pthread_mutex_init(&store->lock, NULL);
    return store;
}

void store_destroy(struct store *store)
{
    if (!store)
        return;
    store_index_destroy(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

void store_set_max(struct store *store, size_t max_results)
{
    atomic_store(&store->max_results, max_results);
}

size_t store_count(struct store *store)
{
    return atomic_load(&store->count);
}

bool store_id_of_file(const char *file, char id[ZC_ID_MAX])
{
    const size_t length = strlen(file), suffix = sizeof STORE_SUFFIX - 1;
    char name[ZC_ID_MAX];
    if (length <= suffix || length - suffix >= ZC_ID_MAX || strcmp(file + length - suffix, STORE_SUFFIX) != 0)
        return false;
    memcpy(name, file, length - suffix);
    name[length - suffix] = 0;
    if (!store_id_valid(name))
        return false;
    memcpy(id, name, sizeof name);
    return true;
}

int store_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';     /* temporary names start with a dot */
}

bool store_is_old(int folder_fd, const char *file)
{
    struct stat stat;
    return fstatat(folder_fd, file, &stat, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - stat.st_mtime > TEMPORARY_AGE_S;
}

static int folder_failed(const struct store *store, int errnum, const char *what, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_RESOURCE, errnum, NULL, "results cannot be stored in %s: %s: %s", store->folder, what,
                        strerror(-errnum));
}

/* What a daemon that was killed while writing left behind; and how many results there are. */
static void look_around(struct store *store)
{
    size_t count = 0;
    DIR *folder = opendir(store->folder);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        count += (size_t)store_visible(entry);
        if (strncmp(entry->d_name, TEMPORARY, sizeof TEMPORARY - 1) == 0 && store_is_old(dirfd(folder), entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
    atomic_store(&store->count, count);
}

int store_check(struct store *store, struct zc_error *err)
{
    int failed = make_folders(store->folder);
    if (failed)
        return folder_failed(store, failed, "mkdir", err);
    if (access(store->folder, R_OK | W_OK | X_OK) != 0)
        return folder_failed(store, -errno, "access", err);
    look_around(store);
    store_remove_orphans(store);
    return 0;
}

void store_file_name(const struct store *store, const char *prefix, const char *id, char *path)
{
    snprintf(path, PATH_MAX, "%s/%.5s%.*s%s", store->folder, prefix, ZC_ID_MAX - 1, id, STORE_SUFFIX);
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

/* Everything that must have happened before the rename. */
static int write_file(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -errno;
    int failed = write_all(fd, text, length);
    if (!failed && fsync(fd) != 0)
        failed = -errno;
    if (close(fd) != 0 && !failed)
        failed = -errno;
    return failed;
}

static int sync_folder(const struct store *store)
{
    int fd = open(store->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int failed = fsync(fd) != 0 && errno != EINVAL ? -errno : 0;    /* EINVAL: a file system that has no such thing */
    close(fd);
    return failed;
}

int store_write(struct store *store, const char *id, const json_t *document, char *path, struct zc_error *err)
{
    char temporary[PATH_MAX], final[PATH_MAX];
    if (!store_id_valid(id))
        return zc_error_set(err, ZC_ERR_INTERNAL, -EINVAL, "id", "'%.60s' is not a run id", id);
    store_file_name(store, TEMPORARY, id, temporary);
    store_file_name(store, "", id, final);
    int failed = make_folders(store->folder);   /* again: it may have been removed meanwhile */
    if (failed)
        return folder_failed(store, failed, "mkdir", err);
    char *text = json_dumps(document, ZC_JSON_DOCUMENT);
    if (!text)
        return folder_failed(store, -ENOMEM, "encoding", err);
    failed = write_file(temporary, text, strlen(text));
    free(text);
    if (!failed && rename(temporary, final) != 0)
        failed = -errno;
    if (failed) {
        unlink(temporary);
        return folder_failed(store, failed, "write", err);
    }
    failed = sync_folder(store);
    if (failed)
        return folder_failed(store, failed, "sync", err);
    memcpy(path, final, strlen(final) + 1);
    store_index_put(store, id, document);
    store_prune(store);
    return 0;
}

int store_id_check(const char *id, struct zc_error *err)
{
    return store_id_valid(id) ? 0 : zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "id", "id '%.60s' is not a run id", id);
}

int store_not_found(const char *id, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "id", "no run or result %s", id);
}

/* The whole file, zero-terminated, malloc'ed. Opened so that neither a FIFO nor a link leads anywhere. */
static int read_file(const char *path, char **text, size_t *length)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int failed = fstat(fd, &stat) != 0 ? -errno : !S_ISREG(stat.st_mode) ? -EINVAL : stat.st_size > DOCUMENT_MAX_BYTES ? -EFBIG : 0;
    char *bytes = failed ? NULL : malloc((size_t)stat.st_size + 1);
    if (!failed && !bytes)
        failed = -ENOMEM;
    size_t have = 0;
    while (!failed && have < (size_t)stat.st_size) {
        ssize_t got = read(fd, bytes + have, (size_t)stat.st_size - have);
        if (got < 0 && errno != EINTR)
            failed = -errno;
        if (got == 0)
            break;
        if (got > 0)
            have += (size_t)got;
    }
    close(fd);
    if (failed) {
        free(bytes);
        return failed;
    }
    bytes[have] = 0;
    *text = bytes;
    *length = have;
    return 0;
}

json_t *store_load(const struct store *store, const char *id, char *why, size_t why_size, int *errnum)
{
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    store_file_name(store, "", id, path);
    *errnum = read_file(path, &text, &length);
    if (*errnum) {
        snprintf(why, why_size, "%s", strerror(-*errnum));
        return NULL;
    }
    json_error_t error;
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    free(text);
    *errnum = -EBADMSG;
    if (!document) {
        snprintf(why, why_size, "not JSON: line %d: %.120s", error.line, error.text);
        return NULL;
    }
    const char *inside = json_string_value(json_object_get(document, "id"));
    json_int_t version = json_integer_value(json_object_get(document, "schema_version"));
    if (!inside || version < 1)
        snprintf(why, why_size, "not a result document");
    else if (strcmp(inside, id) != 0)
        snprintf(why, why_size, "holds the result of another run");
    else if (version > ZC_RESULT_SCHEMA_VERSION)
        snprintf(why, why_size, "schema version %" JSON_INTEGER_FORMAT " is newer than this program", version);
    else {
        *errnum = 0;
        return document;
    }
    json_decref(document);
    return NULL;
}

int store_read(struct store *store, const char *id, json_t **document, char *path, struct zc_error *err)
{
    char why[256];
    int errnum = store_id_check(id, err);
    if (errnum)
        return errnum;
    json_t *loaded = store_load(store, id, why, sizeof why, &errnum);
    if (!loaded && (errnum == -ENOENT || errnum == -ENOTDIR))
        return store_not_found(id, err);
    if (!loaded)
        return zc_error_set(err, ZC_ERR_RESOURCE, errnum, "id", "result %s is unreadable: %s", id, why);
    if (path)
        store_file_name(store, "", id, path);
    *document = loaded;
    return 0;
}

bool store_exists(struct store *store, const char *id)
{
    char path[PATH_MAX];
    store_file_name(store, "", id, path);
    return access(path, F_OK) == 0;
}

int store_delete(struct store *store, const char *id, struct zc_error *err)
{
    char path[PATH_MAX];
    int failed = store_id_check(id, err);
    if (failed)
        return failed;
    store_file_name(store, "", id, path);
    if (unlink(path) != 0)
        failed = -errno;
    if (failed == -ENOENT || failed == -ENOTDIR)
        return store_not_found(id, err);
    if (failed)
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, "id", "result %s cannot be deleted: %s", id, strerror(-failed));
    store_index_remove(store, id);
    store_trace_name(store, id, path);
    if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, "id", "the trace of %s cannot be deleted: %s", id, strerror(errno));
    return 0;
}
