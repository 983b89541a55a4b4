/* Every control method with any parameters, through the control socket's own code: exactly one reply, and the daemon goes on. The first
 * line is the method's name, or its first byte chooses one; the rest is the JSON of its params. Runs measure nothing, sweeps and probes
 * end with the decoding of what was asked for, there is no device; results are files. `doctor` is left out: it asks the network. */
#include <sys/socket.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "dispatch.h"
#include "log.h"
#include "fuzz.h"

static const char *const methods[] = {
#define ZC_METHOD(name, handler, access, params, help) name,
#include "methods.def"
#undef ZC_METHOD
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static struct daemon daemon_;
static struct loop_io *answers;
static int fd = -1;
static int replies;
static char folder[] = "/tmp/zc-fuzz-XXXXXX";
static const char stored[] = "20261129T190102Z-copy_blocking-3f9a";

/* ---- what stands for the device and for peers (--wrap) */

const struct zc_device_info *__wrap_zc_device_info(const struct zc_device *device);
void __wrap_serving_stats(const struct daemon *daemon, struct zc_responder_stats *stats);
const char *__wrap_serving_port_state(const struct daemon *daemon);
uint64_t __wrap_presence_removals(const struct daemon *daemon);
size_t __wrap_zc_responder_sessions(const struct zc_responder *responder, struct zc_session_info *infos, size_t max);
bool __wrap_zc_responder_close_session(struct zc_responder *responder, uint64_t id);
uint16_t __wrap_zc_responder_port(const struct zc_responder *responder);
size_t __wrap_zc_region_size(const struct zc_region *region);
uint64_t __wrap_zc_region_huge_bytes(const struct zc_region *region);

const struct zc_device_info *__wrap_zc_device_info(const struct zc_device *device)
{
    static const struct zc_device_info info = { .name = "none" };
    (void)device;
    return &info;
}

void __wrap_serving_stats(const struct daemon *daemon, struct zc_responder_stats *stats)
{
    (void)daemon;
    memset(stats, 0, sizeof *stats);
}

const char *__wrap_serving_port_state(const struct daemon *daemon)
{
    (void)daemon;
    return "ACTIVE";
}

uint64_t __wrap_presence_removals(const struct daemon *daemon)
{
    (void)daemon;
    return 0;
}

size_t __wrap_zc_responder_sessions(const struct zc_responder *responder, struct zc_session_info *infos, size_t max)
{
    (void)responder;
    if (max > 0)
        infos[0] = (struct zc_session_info){ .id = 1, .peer = "192.0.2.1:1", .qps = 1 };
    return 1;
}

bool __wrap_zc_responder_close_session(struct zc_responder *responder, uint64_t id)
{
    (void)responder;
    return id == 1;
}

uint16_t __wrap_zc_responder_port(const struct zc_responder *responder)
{
    (void)responder;
    return 17471;
}

size_t __wrap_zc_region_size(const struct zc_region *region)
{
    (void)region;
    return 4096;
}

uint64_t __wrap_zc_region_huge_bytes(const struct zc_region *region)
{
    (void)region;
    return 0;
}

int __wrap_runs_start_job(struct runs *runs, struct run_job *job, uint64_t owner_uid, char id[ZC_ID_MAX], struct zc_error *err);
int __wrap_runs_start_job(struct runs *runs, struct run_job *job, uint64_t owner_uid, char id[ZC_ID_MAX], struct zc_error *err)
{
    (void)runs, (void)owner_uid, (void)id;
    job->destroy(job);
    return zc_error_set(err, ZC_ERR_BUSY, -EBUSY, NULL, "nothing is started here");
}

static int measure_nothing(const struct zc_measure_params *params, struct zc_result *result)
{
    result->config = params->options;
    result->state = ZC_RUN_FAILED;
    return zc_error_set(&result->error, ZC_ERR_PEER, -ECONNREFUSED, "peer", "nobody is there");
}

/* ---- */

static void on_answer(void *arg, int events)
{
    static char text[2 << 20];
    static size_t length;
    (void)arg, (void)events;
    ssize_t got = read(fd, text + length, sizeof text - length);
    HOLDS(got > 0);
    length += (size_t)got;
    for (char *newline; (newline = memchr(text, '\n', length));) {
        size_t line = (size_t)(newline - text) + 1;
        json_t *message = json_loadb(text, line, JSON_REJECT_DUPLICATES, NULL);
        HOLDS(message);
        replies += json_object_get(message, "id") != NULL;
        json_decref(message);
        length -= line;
        memmove(text, newline + 1, length);
    }
    if (replies)
        loop_stop(daemon_.loop);
}

static void put(const char *id, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/results/%s.json", folder, id);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    HOLDS(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

static void store_something(void)
{
    char text[128];
    if (store_exists(daemon_.store, stored))
        return;
    snprintf(text, sizeof text, "{\"id\": \"%s\", \"schema_version\": 1, \"state\": \"done\"}", stored);
    put(stored, text);
}

static void clean_up(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s is left\n", folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct zc_error err = { 0 };
    struct control_params control = { .handle = dispatch_call, .arg = &daemon_ };
    struct runs_params runs = { .self = { "192.0.2.1", 1 }, .measure = measure_nothing };
    int fds[2];
    log_set_level(ZC_LOG_ERROR - 1);
    HOLDS(mkdtemp(folder) && atexit(clean_up) == 0 && loop_create(&daemon_.loop) == 0);
    control.loop = runs.loop = daemon_.loop;
    daemon_.responder = (struct zc_responder *)&daemon_;    /* there is one, and it is not looked into */
    daemon_.store = store_create(folder);
    runs.store = store_create("/proc/no/such/folder");      /* no disk for what is not looked at */
    HOLDS(daemon_.store && runs.store && store_check(daemon_.store, &err) == 0);
    put("20261129T190102Z-copy_blocking-ffff", "{");
    HOLDS(control_create(&control, &daemon_.control, &err) == 0 && runs_create(&runs, &daemon_.runs, &err) == 0);
    HOLDS(worker_create(daemon_.loop, &daemon_.worker, &err) == 0);
    HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fd = fds[0];
    HOLDS(control_adopt(daemon_.control, fds[1]) == 0);
    HOLDS(loop_io_create(daemon_.loop, fd, LOOP_READ, on_answer, NULL, &answers) == 0);
    return 0;
}

static const char *method_of(const uint8_t *line, size_t length)
{
    for (size_t i = 0; i < METHODS; i++)
        if (strlen(methods[i]) == length && memcmp(methods[i], line, length) == 0)
            return methods[i];
    return methods[(length ? line[0] : 0) % METHODS];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    const size_t head = newline ? (size_t)(newline - data) + 1 : size;
    const char *method = method_of(data, newline ? head - 1 : size);
    size_t length;
    if (strcmp(method, "doctor") == 0)
        return 0;
    json_t *params = size > head ? json_loadb((const char *)data + head, size - head, 0, NULL) : NULL;
    if (size > head && !params)
        return 0;       /* what is not JSON is rpc.c's */
    store_something();
    json_t *call = zc_rpc_call(1, method, params);
    char *line = call ? zc_rpc_encode(call, &length) : NULL;
    HOLDS(line);
    if (length < 64 << 10) {
        replies = 0;
        HOLDS(write(fd, line, length) == (ssize_t)length);
        loop_run(daemon_.loop);
        HOLDS(replies == 1);
    }
    free(line);
    json_decref(call);
    return 0;
}
