/* See reexec.h. ZCRDMA_SOFT_LIBRARY names the library for tests and unusual installations; then no other place is searched. */
#include "reexec.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

#define SOFT_LIBRARY "libzcsoft.so"

/* Set for the second life: the LD_PRELOAD to go back to. Its presence stops a loop. */
static const char RESTORE[] = "ZCRDMA_PRELOAD_RESTORE";

static bool on_soft_device(void)
{
    return dlsym(RTLD_DEFAULT, "zcsoft_device_cpu_ns") != NULL;
}

/* True in the second life. Children inherit the environment that the user gave. */
static bool restore_environment(void)
{
    const char *preload = getenv(RESTORE);
    if (!preload)
        return false;
    if (*preload)
        setenv("LD_PRELOAD", preload, 1);
    else
        unsetenv("LD_PRELOAD");
    unsetenv(RESTORE);
    return true;
}

/* The folder of this program's file. */
static int own_folder(char *program, char *folder)
{
    ssize_t length = readlink("/proc/self/exe", program, PATH_MAX - 1);
    if (length <= 0)
        return -errno;
    program[length] = 0;
    snprintf(folder, PATH_MAX, "%.*s", (int)(strrchr(program, '/') - program), program);
    return 0;
}

/* In the build tree, where it was installed with this program, where it was configured to be installed. */
static int find_library(const char *folder, char *library, struct zc_error *err)
{
    static const char *const beside[] = { "../src/soft/" SOFT_LIBRARY, ZC_LIBRARY_BESIDE "/" SOFT_LIBRARY };
    char places[3][PATH_MAX];
    const char *chosen = getenv("ZCRDMA_SOFT_LIBRARY");
    size_t count = 0;
    if (chosen && *chosen) {
        snprintf(places[count++], PATH_MAX, "%s", chosen);
    } else {
        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
            snprintf(places[count++], PATH_MAX, "%.*s/%s", PATH_MAX / 2, folder, beside[i]);
        snprintf(places[count++], PATH_MAX, "%s/%s", ZC_LIBRARY_FOLDER, SOFT_LIBRARY);
    }
    for (size_t i = 0; i < count; i++) {
        if (access(places[i], R_OK) != 0)
            continue;
        if (!realpath(places[i], library))
            continue;
        if (strpbrk(library, " :"))
            return zc_error_set(err, ZC_ERR_DEVICE, -EINVAL, "device", "the dynamic linker cannot preload '%.200s': a blank or a "
                                "colon is in its name", library);
        return 0;
    }
    return zc_error_set(err, ZC_ERR_NOT_FOUND, -ENOENT, "device", "the software device " SOFT_LIBRARY
                        " is not installed (looked in %.100s%s%.100s%s%.100s)", places[0], count > 1 ? ", " : "",
                        count > 1 ? places[1] : "", count > 2 ? ", " : "", count > 2 ? places[2] : "");
}

/* A sanitizer's runtime insists on being the first of all libraries; if this program has one, name it first. */
static void find_sanitizer(char *runtime)
{
    static const char *const names[] = { "/libasan.so", "/libtsan.so" };
    char line[PATH_MAX + 128];
    *runtime = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !*runtime && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        for (size_t i = 0; path && i < sizeof names / sizeof names[0]; i++)
            if (strstr(path, names[i]))
                snprintf(runtime, PATH_MAX, "%.*s", (int)strcspn(path, "\n"), path);
    }
    if (maps)
        fclose(maps);
}

/* Returns only on failure. */
static int execute_again(char **argv, struct zc_error *err)
{
    char program[PATH_MAX], folder[PATH_MAX], library[PATH_MAX], runtime[PATH_MAX], preload[4 * PATH_MAX];
    const char *before = getenv("LD_PRELOAD");
    int failed = own_folder(program, folder);
    if (failed)
        return zc_error_set(err, ZC_ERR_DEVICE, failed, "device", "cannot read /proc/self/exe: %s", strerror(-failed));
    failed = find_library(folder, library, err);
    if (failed)
        return failed;
    find_sanitizer(runtime);
    if (!before)
        before = "";
    snprintf(preload, sizeof preload, "%s%s%s%s%s", runtime, *runtime ? ":" : "", library, *before ? ":" : "", before);
    if (setenv(RESTORE, before, 1) != 0 || setenv("LD_PRELOAD", preload, 1) != 0)
        return zc_error_set(err, ZC_ERR_RESOURCE, -errno, "device", "cannot set LD_PRELOAD: %s", strerror(errno));
    execv(program, argv);
    execv("/proc/self/exe", argv);      /* the file was replaced or removed since */
    failed = -errno;
    restore_environment();
    return zc_error_set(err, ZC_ERR_DEVICE, failed, "device", "cannot execute %.200s again: %s", program, strerror(-failed));
}

static int go_soft(bool second_life, char **argv, struct zc_error *err)
{
    if (second_life)
        return zc_error_set(err, ZC_ERR_DEVICE, -ELIBACC, "device", "the software device was preloaded and did not come up");
    return execute_again(argv, err);
}

static void log_device(const struct zc_device *device)
{
    const struct zc_device_info *info = zc_device_info(device);
    if (info->kind == ZC_DEVICE_SOFTWARE)
        log_warning("using the software device %s, address %s: its figures say nothing about a NIC", info->name, info->address);
    else
        log_info("using RDMA device %s (%s) port %u, %s, address %s", info->name, zc_device_kind_names[info->kind],
                 (unsigned)info->port, info->port_state, *info->address ? info->address : "none");
}

static int open_device(const char *name, struct zc_device **device, struct zc_error *err)
{
    int failed = zc_device_open(name, device, err);
    if (!failed)
        log_device(*device);
    return failed;
}

int device_choose(const char *wanted, char **argv, struct zc_device **device, struct zc_error *err)
{
    bool second_life = restore_environment(), soft = on_soft_device();
    bool automatic = strcmp(wanted, "auto") == 0;
    if (strcmp(wanted, "soft") == 0)
        return soft ? open_device(NULL, device, err) : go_soft(second_life, argv, err);
    if (!automatic || soft)
        return open_device(automatic ? NULL : wanted, device, err);

    struct zc_error missing = { 0 }, cause = { 0 };
    if (open_device(NULL, device, &missing) == 0)
        return 0;
    log_info("%s; taking the software device", missing.message);
    go_soft(second_life, argv, &cause);
    return zc_error_set(err, cause.kind, cause.errnum, "device", "no RDMA device with an ACTIVE port, and %s", cause.message);
}
