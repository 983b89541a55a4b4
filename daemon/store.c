/* The results on disk. See store.h. */
#include "store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "result.h"
#include "zc_json.h"

enum {
    DOCUMENT_MAX_BYTES = 64 << 20,              /* a foreign file must not fill the memory */
    TEMPORARY_AGE_S = 60,
    FOLDER_MAX = PATH_MAX - ZC_ID_MAX - 16,     /* leaves room for every file name below it */
};

static const char SUFFIX[] = ".json", TEMPORARY[] = ".new-";

struct store {
    char folder[FOLDER_MAX];    /* STATE_DIR/results */
    char traces[FOLDER_MAX];    /* STATE_DIR/traces */
};

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
    return store;
}

void store_destroy(struct store *store)
{
    free(store);
}

static int folder_failed(const struct store *store, int errnum, const char *what, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_RESOURCE, errnum, NULL, "results cannot be stored in %s: %s: %s", store->folder, what,
                        strerror(-errnum));
}

/* What a daemon that was killed while writing left behind. Young ones may be another daemon's that has the same folder. */
static void remove_temporaries(const struct store *store)
{
    DIR *folder = opendir(store->folder);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        struct stat stat;
        if (strncmp(entry->d_name, TEMPORARY, sizeof TEMPORARY - 1) == 0
            && fstatat(dirfd(folder), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - stat.st_mtime > TEMPORARY_AGE_S)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

static void trace_name(const struct store *store, const char *id, char *path)
{
    snprintf(path, PATH_MAX, "%s/%.*s%s", store->traces, ZC_ID_MAX - 1, id, SUFFIX);
}

/* Traces whose result was never stored, or was removed by hand. A young one may be another daemon's, being written. */
static void remove_orphans(struct store *store)
{
    DIR *folder = opendir(store->traces);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char id[ZC_ID_MAX] = "";
        struct stat stat;
        const size_t length = strlen(entry->d_name);
        if (length < sizeof id + sizeof SUFFIX - 2 && length > sizeof SUFFIX - 1)
            memcpy(id, entry->d_name, length - (sizeof SUFFIX - 1));
        if (store_id_valid(id) && !store_exists(store, id)
            && fstatat(dirfd(folder), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - stat.st_mtime > TEMPORARY_AGE_S)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

int store_check(struct store *store, struct zc_error *err)
{
    int failed = make_folders(store->folder);
    if (failed)
        return folder_failed(store, failed, "mkdir", err);
    if (access(store->folder, R_OK | W_OK | X_OK) != 0)
        return folder_failed(store, -errno, "access", err);
    remove_temporaries(store);
    remove_orphans(store);
    return 0;
}

static void file_name(const struct store *store, const char *prefix, const char *id, char *path)
{
    snprintf(path, PATH_MAX, "%s/%.5s%.*s%s", store->folder, prefix, ZC_ID_MAX - 1, id, SUFFIX);
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
    file_name(store, TEMPORARY, id, temporary);
    file_name(store, "", id, final);
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
    return 0;
}

static int id_checked(const char *id, struct zc_error *err)
{
    return store_id_valid(id) ? 0 : zc_error_set(err, ZC_ERR_INVALID, -EINVAL, "id", "id '%.60s' is not a run id", id);
}

static int not_found(const char *id, struct zc_error *err)
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

/* A new reference, or NULL with the reason. */
static json_t *load(const struct store *store, const char *id, char *why, size_t why_size, int *errnum)
{
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    file_name(store, "", id, path);
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
    int errnum = id_checked(id, err);
    if (errnum)
        return errnum;
    json_t *loaded = load(store, id, why, sizeof why, &errnum);
    if (!loaded && (errnum == -ENOENT || errnum == -ENOTDIR))
        return not_found(id, err);
    if (!loaded)
        return zc_error_set(err, ZC_ERR_RESOURCE, errnum, "id", "result %s is unreadable: %s", id, why);
    if (path)
        file_name(store, "", id, path);
    *document = loaded;
    return 0;
}

bool store_exists(struct store *store, const char *id)
{
    char path[PATH_MAX];
    file_name(store, "", id, path);
    return access(path, F_OK) == 0;
}

int store_delete(struct store *store, const char *id, struct zc_error *err)
{
    char path[PATH_MAX];
    int failed = id_checked(id, err);
    if (failed)
        return failed;
    file_name(store, "", id, path);
    if (unlink(path) != 0)
        failed = -errno;
    if (failed == -ENOENT || failed == -ENOTDIR)
        return not_found(id, err);
    if (failed)
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, "id", "result %s cannot be deleted: %s", id, strerror(-failed));
    trace_name(store, id, path);
    if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, "id", "the trace of %s cannot be deleted: %s", id, strerror(errno));
    return 0;
}

int store_trace_path(struct store *store, const char *id, char *path, struct zc_error *err)
{
    const int failed = make_folders(store->traces);
    if (failed)
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, "logging", "traces cannot be stored in %s: %s", store->traces,
                            strerror(-failed));
    trace_name(store, id, path);
    return 0;
}

int store_trace_read(struct store *store, const char *id, uint64_t offset, char *piece, size_t size, size_t *length,
                     uint64_t *total, struct zc_error *err)
{
    char path[PATH_MAX];
    struct stat stat;
    int failed = id_checked(id, err);
    if (failed)
        return failed;
    trace_name(store, id, path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return store_exists(store, id)
                   ? zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "id", "run %s has no trace: it was made without logging", id)
                   : not_found(id, err);
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

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';     /* temporary names start with a dot */
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*b)->d_name, (*a)->d_name);
}

size_t store_count(struct store *store)
{
    DIR *folder = opendir(store->folder);
    size_t count = 0;
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += (size_t)visible(entry);
    closedir(folder);
    return count;
}

static bool visit_file(struct store *store, const char *file,
                       bool (*visit)(void *arg, const char *name, const json_t *document, const char *why), void *arg)
{
    char name[NAME_MAX + 1], why[256];
    int errnum;
    size_t length = strlen(file);
    if (length > sizeof SUFFIX - 1 && strcmp(file + length - (sizeof SUFFIX - 1), SUFFIX) == 0)
        length -= sizeof SUFFIX - 1;
    snprintf(name, sizeof name, "%.*s", (int)length, file);
    if (length == strlen(file) || !store_id_valid(name))
        return visit(arg, name, NULL, "not the name of a result");
    json_t *document = load(store, name, why, sizeof why, &errnum);
    bool more = visit(arg, name, document, document ? NULL : why);
    json_decref(document);
    return more;
}

int store_list(struct store *store, bool (*visit)(void *arg, const char *name, const json_t *document, const char *why),
               void *arg, struct zc_error *err)
{
    struct dirent **entries;
    int count = scandir(store->folder, &entries, visible, newest_first);
    if (count < 0 && errno == ENOENT)
        return 0;       /* nothing was ever stored */
    if (count < 0) {
        int failed = -errno;
        return zc_error_set(err, ZC_ERR_RESOURCE, failed, NULL, "cannot list %s: %s", store->folder, strerror(-failed));
    }
    bool more = true;
    for (int i = 0; i < count; i++) {
        if (more)
            more = visit_file(store, entries[i]->d_name, visit, arg);
        free(entries[i]);
    }
    free(entries);
    return 0;
}
