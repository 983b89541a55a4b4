/* doctor: what would spoil a measurement. The main thread collects what only it knows, the doctor's thread asks the peer and looks. */
#include "cmd_doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cmd.h"
#include "doctor.h"
#include "log.h"
#include "peer.h"
#include "presence.h"
#include "serving.h"
#include "worker.h"
#include "zc_json.h"

struct doctor {
    struct worker *worker;
    int cancel_fd;
    atomic_bool cancel;
    size_t examinations;        /* submitted and not back */
};

struct examination {
    struct worker_job job;      /* first: the worker hands it back */
    struct doctor *doctor;
    struct call *call;          /* NULL: its client has gone */
    struct zc_probe_params ask; /* the peer, if one is named */
    struct zc_doctor_facts facts;
    char host[ZC_PEER_MAX];
    struct zc_finding findings[ZC_FINDINGS_MAX];
    size_t count;
};

/* ---- life */

int doctor_start(struct daemon *daemon, struct zc_error *err)
{
    struct doctor *doctor = calloc(1, sizeof *doctor);
    if (!doctor)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "doctor: out of memory");
    int failed = 0;
    doctor->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (doctor->cancel_fd < 0)
        failed = zc_error_set(err, ZC_ERR_RESOURCE, -errno, NULL, "doctor: eventfd: %s", strerror(errno));
    if (!failed)
        failed = worker_create(daemon->loop, &doctor->worker, err);
    if (!failed) {
        daemon->doctor = doctor;
        return 0;
    }
    if (doctor->cancel_fd >= 0)
        close(doctor->cancel_fd);
    free(doctor);
    return failed;
}

void doctor_cancel(struct daemon *daemon)
{
    uint64_t one = 1;
    atomic_store(&daemon->doctor->cancel, true);
    if (write(daemon->doctor->cancel_fd, &one, sizeof one) < 0)
        log_error("doctor: cannot be woken for stopping: %s", strerror(errno));
}

bool doctor_busy(const struct daemon *daemon)
{
    return daemon->doctor->examinations > 0;
}

void doctor_stop(struct daemon *daemon)
{
    struct doctor *doctor = daemon->doctor;
    worker_destroy(doctor->worker);
    close(doctor->cancel_fd);
    free(doctor);
}

/* ---- one examination */

static void on_work(struct worker_job *job)
{
    struct examination *examination = (struct examination *)job;
    struct zc_doctor_peer *peer = &examination->facts.peer;
    if (*peer->name)
        zc_doctor_ask_peer(&examination->ask, peer);
    examination->count = zc_doctor_check(&examination->facts, examination->findings);
}

static json_t *encode_findings(const struct examination *examination)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < examination->count; i++) {
        const struct zc_finding *finding = &examination->findings[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", finding->id, "what", finding->what, "level",
                                              zc_finding_level_names[finding->level], "finding", zc_json_text(finding->finding),
                                              "fix", zc_json_text(finding->fix)));
    }
    return rows;
}

static json_t *encode(const struct examination *examination)
{
    return json_pack("{s:i, s:o, s:o, s:o}", "schema_version", ZC_DOCTOR_SCHEMA_VERSION, "device",
                     zc_json_text(examination->facts.device.name), "peer", zc_json_text(examination->facts.peer.name), "findings", encode_findings(examination));
}

static void on_done(struct worker_job *job, bool worked)
{
    struct examination *examination = (struct examination *)job;
    examination->doctor->examinations--;
    if (examination->call && worked)
        call_reply(examination->call, encode(examination));
    else if (examination->call)
        call_fail_code(examination->call, ZC_RPC_BUSY, "zcrdmad is stopping", NULL, "busy");
    free(examination);
}

static void on_gone(void *arg)
{
    struct examination *examination = arg;
    examination->call = NULL;
}

/* ---- what only the main thread knows */

static int take_peer(const struct daemon *daemon, const json_t *params, struct examination *examination, struct zc_error *err)
{
    struct run_self self;
    const char *name;
    if (!json_object_get(params, "peer"))
        return 0;
    int failed = cmd_text(params, "peer", &name, err);
    if (failed)
        return failed;
    const bool is_self = strcmp(name, "self") == 0;
    serving_self(daemon, &self);
    if (is_self && !*self.address)
        return zc_error_set(err, ZC_ERR_DEVICE, -EADDRNOTAVAIL, "peer", "peer self: the RDMA device has no IP address");
    failed = is_self ? 0 : zc_peer_split(name, examination->host, &examination->ask.port, err);
    if (failed)
        return failed;
    if (is_self) {
        snprintf(examination->host, sizeof examination->host, "%s", self.address);
        examination->ask.port = self.port;
    } else if (examination->ask.port == 0) {
        examination->ask.port = ZC_DEFAULT_PORT;
    }
    examination->facts.peer.self = examination->ask.port == self.port && strcmp(examination->host, self.address) == 0;
    snprintf(examination->facts.peer.name, sizeof examination->facts.peer.name, "%s", name);
    return 0;
}

static void take_facts(const struct daemon *daemon, struct zc_doctor_facts *facts)
{
    struct runs_stats runs;
    struct zc_responder_stats sessions;
    zc_doctor_facts_read(daemon->device, facts);
    runs_stats(daemon->runs, &runs);
    serving_stats(daemon, &sessions);
    facts->runs_active = (uint32_t)runs.active;
    facts->sessions_open = (uint32_t)sessions.sessions_open;
    facts->region_bytes = zc_region_size(daemon->region);
}

int cmd_doctor(struct daemon *daemon, struct call *call, const json_t *params, json_t **result, struct zc_error *err)
{
    (void)result;
    if (!presence_served(daemon))
        return presence_error(daemon, err);
    struct examination *examination = calloc(1, sizeof *examination);
    if (!examination)
        return zc_error_set(err, ZC_ERR_RESOURCE, -ENOMEM, NULL, "doctor: out of memory");
    take_facts(daemon, &examination->facts);
    int failed = take_peer(daemon, params, examination, err);
    if (failed) {
        free(examination);
        return failed;
    }
    examination->job = (struct worker_job){ .work = on_work, .done = on_done };
    examination->call = call;
    examination->ask.device = daemon->device;
    examination->ask.host = examination->host;
    examination->ask.key = daemon->key;
    examination->ask.cancel_fd = daemon->doctor->cancel_fd;
    examination->ask.cancel = &daemon->doctor->cancel;
    call_on_gone(call, on_gone, examination);
    examination->doctor = daemon->doctor;
    daemon->doctor->examinations++;
    worker_submit(daemon->doctor->worker, &examination->job);
    return CMD_KEPT;
}
