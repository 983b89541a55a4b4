/* Results as files: what is written comes back, and nothing else in the folder disturbs. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "result.h"
#include "store.h"

static const char A[] = "20261129T190102Z-copy_blocking-3f9a", B[] = "20261129T190103Z-copy_blocking-0001";
static char folder[64];
static struct store *store;

static void store_one(const char *id)
{
    struct zc_error err = { 0 };
    char path[PATH_MAX];
    json_t *document = json_pack("{s:s, s:i, s:s}", "id", id, "schema_version", 1, "state", "done");
    if (store_write(store, id, document, path, &err) != 0)
        fail_msg("%s", err.message);
    json_decref(document);
    assert_int_equal(access(path, R_OK), 0);
}

static void write_trace(const char *id, const char *text)
{
    struct zc_error err = { 0 };
    char path[PATH_MAX];
    assert_int_equal(store_trace_path(store, id, path, &err), 0);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/results/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

struct seen {
    size_t readable, unreadable;
    char first[300], why[300];
};

static void see(struct seen *seen, json_t *row)
{
    const char *why = json_string_value(json_object_get(row, "error"));
    bool readable = json_is_true(json_object_get(row, "readable"));
    if (!*seen->first)
        snprintf(seen->first, sizeof seen->first, "%s", json_string_value(json_object_get(row, "id")));
    seen->readable += readable;
    seen->unreadable += !readable;
    assert_int_equal(readable, why == NULL);
    if (why)
        snprintf(seen->why, sizeof seen->why, "%s", why);
}

/* Everything, in pages of `limit`. */
static struct seen list_by(size_t limit)
{
    struct zc_error err = { 0 };
    struct seen seen = { 0 };
    char before[NAME_MAX + 1] = "";
    assert_int_equal(store_refresh(store, &err), 0);
    do {
        json_t *rows, *row;
        size_t i;
        char next[NAME_MAX + 1];
        assert_int_equal(store_page(store, *before ? before : NULL, limit, &rows, next), 0);
        assert_true(json_array_size(rows) <= limit);
        json_array_foreach(rows, i, row)
            see(&seen, row);
        json_decref(rows);
        memcpy(before, next, sizeof before);
    } while (*before);
    assert_int_equal(store_count(store), seen.readable + seen.unreadable);
    return seen;
}

static struct seen list(void)
{
    const struct seen seen = list_by(500), in_pages = list_by(1);
    assert_memory_equal(&seen, &in_pages, sizeof seen);
    return seen;
}

static void test_ids(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", ".", "..", "x", "../etc/passwd", "20261129T190102Z-../../x-3f9a", "20261129T190102Z-copy/blocking-3f9a",
        "20261129T190102Z--3f9a", "20261129T190102Z-copy_blocking-3f9", "20261129T190102Z-copy_blocking-3f9a.json",
        "20261129T190102Z-copy_blocking-xxxx", "20261129t190102Z-copy_blocking-3f9a", "20261129T190102Z-COPY-3f9a",
        "20261129T190102Z-copy blocking-3f9a", "20261129T190102Z-copy_blocking_and_much_more_than_fits-3f9a", "/20261129T190102Z-a-3f9a",
    };
    assert_true(store_id_valid(A));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zc_error err = { 0 };
        json_t *document;
        assert_false(store_id_valid(bad[i]));
        assert_int_equal(store_read(store, bad[i], &document, NULL, &err), -EINVAL);
        assert_string_equal(err.field, "id");
        assert_int_equal(store_delete(store, bad[i], &err), -EINVAL);
        assert_int_equal(err.kind, ZC_ERR_INVALID);
    }
}

static void test_write_read_delete(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    json_t *document;
    char path[PATH_MAX];
    assert_int_equal(store_count(store), 0);
    assert_int_equal(list().readable, 0);
    store_one(A);
    store_one(B);
    assert_int_equal(store_count(store), 2);
    assert_true(store_exists(store, A));
    struct seen seen = list();
    assert_int_equal(seen.readable, 2);
    assert_int_equal(seen.unreadable, 0);
    assert_string_equal(seen.first, B);     /* newest first */
    assert_int_equal(store_read(store, A, &document, path, &err), 0);
    assert_string_equal(json_string_value(json_object_get(document, "id")), A);
    assert_non_null(strstr(path, A));
    json_decref(document);
    assert_int_equal(store_delete(store, A, &err), 0);
    assert_int_equal(store_delete(store, A, &err), -ENOENT);
    assert_int_equal(err.kind, ZC_ERR_NOT_FOUND);
    assert_int_equal(store_read(store, A, &document, path, &err), -ENOENT);
    assert_int_equal(err.kind, ZC_ERR_NOT_FOUND);
    assert_int_equal(store_count(store), 1);
}

static void test_damaged(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    json_t *document;
    char name[128];
    store_one(B);
    snprintf(name, sizeof name, "%s.json", A);
    static const char *const texts[] = { "", "{", "[]", "7", "{}", "{\"id\": 5}", "{\"id\": \"x\", \"id\": \"y\"}", "\xff\xfe" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put(name, texts[i]);
        assert_int_equal(list().readable, 1);
        assert_int_equal(list().unreadable, 1);
        assert_true(store_read(store, A, &document, NULL, &err) < 0);
        assert_int_equal(err.kind, ZC_ERR_RESOURCE);
        assert_non_null(strstr(err.message, A));
    }
    put(name, "{\"id\": \"20261129T190103Z-copy_blocking-0001\", \"schema_version\": 1}");
    assert_string_equal(list().why, "holds the result of another run");
    put(name, "{\"id\": \"20261129T190102Z-copy_blocking-3f9a\", \"schema_version\": 99}");
    assert_non_null(strstr(list().why, "99"));
    assert_int_equal(store_delete(store, A, &err), 0);      /* what is damaged can be removed */
}

static void test_foreign(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    json_t *document;
    char path[PATH_MAX], target[PATH_MAX];
    store_one(B);
    put("notes.txt", "hello");
    put("other.json", "{}");
    put(".hidden", "");
    snprintf(path, sizeof path, "%s/results/folder.json", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/results/%s.json", folder, A);
    assert_int_equal(mkfifo(path, 0600), 0);                /* must not block */
    assert_int_equal(list().readable, 1);
    assert_int_equal(list().unreadable, 4);
    assert_true(store_read(store, A, &document, NULL, &err) < 0);
    unlink(path);
    snprintf(target, sizeof target, "%s/results/%s.json", folder, B);
    assert_int_equal(symlink(target, path), 0);             /* links lead nowhere */
    assert_true(store_read(store, A, &document, NULL, &err) < 0);
    assert_int_equal(list().readable, 1);
}

static void test_unwritable(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    char path[PATH_MAX], below[PATH_MAX];
    snprintf(path, sizeof path, "%s/file", folder);
    fclose(fopen(path, "w"));
    snprintf(below, sizeof below, "%s/file/state", folder);     /* a folder below a file: not even root can make it */
    struct store *unusable = store_create(below);
    json_t *document = json_pack("{s:s, s:i}", "id", A, "schema_version", 1);
    assert_true(store_check(unusable, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_RESOURCE);
    assert_non_null(strstr(err.message, below));
    assert_true(store_write(unusable, A, document, path, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_RESOURCE);
    assert_int_equal(store_count(unusable), 0);
    json_decref(document);
    store_destroy(unusable);
}

/* A full disk leaves neither a part of a result nor a temporary file. */
static void test_no_leftovers(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    char path[PATH_MAX];
    json_t *document = json_pack("{s:s, s:i}", "id", A, "schema_version", 1);
    store_one(B);
    snprintf(path, sizeof path, "%s/results/%s.json", folder, A);
    assert_int_equal(mkdir(path, 0755), 0);                 /* the rename fails */
    assert_true(store_write(store, A, document, path, &err) < 0);
    json_decref(document);
    snprintf(path, sizeof path, "%s/results/.new-%s.json", folder, A);
    assert_int_equal(access(path, F_OK), -1);
}

/* The oldest go first, traces with them; what is not named as a result is neither counted nor touched. */
static void test_limit(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    char path[PATH_MAX];
    store_one(A);
    write_trace(A, "x");
    store_set_max(store, 2);
    put("notes.txt", "mine");
    store_one(B);
    assert_true(store_exists(store, A));
    store_one("20261129T190104Z-copy_async-0000");
    assert_false(store_exists(store, A));
    assert_int_equal(store_trace_path(store, A, path, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(store_exists(store, B));
    struct seen seen = list();
    assert_true(seen.readable == 2 && seen.unreadable == 1);
    store_set_max(store, 1);
    store_prune(store);
    assert_false(store_exists(store, B));
    assert_int_equal(list().readable, 1);
}

static void test_owner(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    uint64_t owner;
    char path[PATH_MAX];
    json_t *document = json_pack("{s:s, s:i, s:i}", "id", A, "schema_version", 1, "owner_uid", 1234);
    assert_false(store_owner(store, A, &owner));
    assert_false(store_owner(store, "../x", &owner));
    assert_int_equal(store_write(store, A, document, path, &err), 0);
    assert_true(store_owner(store, A, &owner) && owner == 1234);
    struct store *again = store_create(folder);     /* knows only the file */
    assert_true(store_owner(again, A, &owner) && owner == 1234);
    store_destroy(again);
    store_one(B);
    assert_true(store_owner(store, B, &owner) && owner == ZC_UNMEASURED);
    json_decref(document);
}

/* A file that has changed is read again. */
static void test_changed(void **state)
{
    (void)state;
    char name[128];
    store_one(A);
    assert_int_equal(list().readable, 1);
    snprintf(name, sizeof name, "%s.json", A);
    put(name, "damaged");
    assert_int_equal(list().unreadable, 1);
}

/* Temporary files of a daemon that was killed: old ones go at the next start. */
static void test_temporaries(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    char old[PATH_MAX], young[PATH_MAX];
    struct timespec times[2] = { { .tv_sec = time(NULL) - 3600 }, { .tv_sec = time(NULL) - 3600 } };
    put(".new-old.json", "");
    put(".new-young.json", "");
    snprintf(old, sizeof old, "%s/results/.new-old.json", folder);
    snprintf(young, sizeof young, "%s/results/.new-young.json", folder);
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    assert_int_equal(store_check(store, &err), 0);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
}

static int setup(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    snprintf(folder, sizeof folder, "/tmp/zc-store-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    store = store_create(folder);
    return store && store_check(store, &err) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    store_destroy(store);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void test_traces(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    char piece[8], path[PATH_MAX];
    size_t length;
    uint64_t total;
    assert_true(store_trace_read(store, A, 0, piece, sizeof piece, &length, &total, &err) < 0);
    assert_int_equal(err.kind, ZC_ERR_NOT_FOUND);
    store_one(A);
    assert_true(store_trace_read(store, A, 0, piece, sizeof piece, &length, &total, &err) < 0);
    assert_non_null(strstr(err.message, "without logging"));
    write_trace(A, "0123456789");
    assert_int_equal(store_count(store), 1);    /* it is no result */
    assert_int_equal(store_trace_read(store, A, 0, piece, sizeof piece, &length, &total, &err), 0);
    assert_true(length == 8 && total == 10 && memcmp(piece, "01234567", 8) == 0);
    assert_int_equal(store_trace_read(store, A, 8, piece, sizeof piece, &length, &total, &err), 0);
    assert_true(length == 2 && memcmp(piece, "89", 2) == 0);
    assert_int_equal(store_trace_read(store, A, 10, piece, sizeof piece, &length, &total, &err), 0);
    assert_int_equal(length, 0);
    assert_true(store_trace_read(store, "../x", 0, piece, sizeof piece, &length, &total, &err) < 0);
    assert_int_equal(store_trace_path(store, A, path, &err), 0);
    assert_int_equal(store_delete(store, A, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
}

/* A trace without a result is what a daemon that was killed leaves; one that is young may still get its result. */
static void test_orphaned_traces(void **state)
{
    (void)state;
    struct zc_error err = { 0 };
    char kept[PATH_MAX], orphan[PATH_MAX];
    const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    store_one(A);
    write_trace(A, "x");
    write_trace(B, "x");
    assert_int_equal(store_trace_path(store, A, kept, &err), 0);
    assert_int_equal(store_trace_path(store, B, orphan, &err), 0);
    assert_int_equal(store_check(store, &err), 0);
    assert_int_equal(access(orphan, F_OK), 0);
    assert_int_equal(utimensat(AT_FDCWD, kept, old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, orphan, old, 0), 0);
    assert_int_equal(store_check(store, &err), 0);
    assert_int_equal(access(orphan, F_OK), -1);
    assert_int_equal(access(kept, F_OK), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_traces), T(test_orphaned_traces), T(test_limit), T(test_owner), T(test_changed),
        T(test_ids), T(test_write_read_delete), T(test_damaged), T(test_foreign), T(test_unwritable), T(test_no_leftovers), T(test_temporaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
