/* The configuration file (daemon/config.c): what is accepted is printed in a form that is accepted again and means the same. */
#include "config.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

static int file_of(const void *text, size_t size, char name[64])
{
    int fd = memfd_create("zcrdmad.conf", MFD_CLOEXEC);
    HOLDS(fd >= 0 && write(fd, text, size) == (ssize_t)size);
    snprintf(name, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static int load(const void *text, size_t size, struct config *config, struct zc_error *err)
{
    char name[64];
    char *argv[] = { "zcrdmad", "--config", name, NULL };
    enum config_action action;
    int fd = file_of(text, size, name), failed = config_load(3, argv, config, &action, err);
    close(fd);
    return failed;
}

static char *print(const struct config *config, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    HOLDS(out);
    config_print(config, out);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config first, second;
    struct zc_error err = { 0 };
    if (load(data, size, &first, &err) != 0) {
        HOLDS(err.kind == ZC_ERR_INVALID && *err.message && !strchr(err.message, '\n'));
        return 0;
    }
    size_t length, again_length;
    char *printed = print(&first, &length);
    if (load(printed, length, &second, &err) != 0) {
        fprintf(stderr, "%s\n%s", err.message, printed);
        abort();
    }
    char *again = print(&second, &again_length);
    HOLDS(length == again_length && memcmp(printed, again, length) == 0);
    free(printed);
    free(again);
    return 0;
}
