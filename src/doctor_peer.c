/* What only a connection to the peer tells, and the checks of it. See doctor_private.h. */
#include "doctor_private.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe_private.h"

enum { LONG_READ = 64 << 10 };      /* several packets of any MTU */

/* ---- asking ---- */

/* An attribute that the device does not tell stays unknown. */
static void read_path(struct ibv_qp *qp, const struct zc_device *device, struct zc_doctor_peer *peer)
{
    struct ibv_qp_attr attr = { 0 };
    struct ibv_qp_init_attr init;
    if (ibv_query_qp(qp, &attr, IBV_QP_PATH_MTU | IBV_QP_AV, &init) != 0)
        return;
    if (attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096)
        peer->path_mtu = 128u << attr.path_mtu;
    if (!attr.ah_attr.is_global ||
        ibv_query_gid(zc_device_context(device), zc_device_info(device)->port, attr.ah_attr.grh.sgid_index, &peer->own_gid) != 0)
        return;
    peer->gids = true;
    peer->own_gid_index = attr.ah_attr.grh.sgid_index;
    peer->peer_gid = attr.ah_attr.grh.dgid;
}

static bool read_through(struct probe_run *run, uint32_t size_bytes, struct zc_doctor_peer *peer)
{
    double ignored;
    const int rc = probe_read_once(run, size_bytes, &ignored);
    if (rc < 0)
        snprintf(peer->why, sizeof peer->why, "%.*s", ZC_FINDING_MAX - 1, run->err->message);
    return rc >= 0;
}

static void ask(struct probe_run *run, struct zc_doctor_peer *peer)
{
    if (probe_connect(run, 1) < 0) {
        peer->error = *run->err;
        return;
    }
    const uint64_t region_bytes = run->probe->peer.region_bytes;
    peer->outstanding_reads = zc_connection_outstanding_reads(run->connection);
    peer->active_mtu = zc_connection_remote(run->connection)->active_mtu;
    read_path(zc_connection_qp(run->connection, 0), run->params->device, peer);
    peer->long_read_bytes = region_bytes < LONG_READ ? (uint32_t)region_bytes : LONG_READ;
    peer->short_read = read_through(run, region_bytes < 8 ? (uint32_t)region_bytes : 8, peer);
    peer->long_read = peer->short_read && read_through(run, peer->long_read_bytes, peer);
}

void zc_doctor_ask_peer(const struct zc_probe_params *params, struct zc_doctor_peer *peer)
{
    struct zc_probe *const probe = calloc(1, sizeof *probe);
    struct probe_run *const run = calloc(1, sizeof *run);
    peer->asked = true;
    if (probe && run) {
        zc_probe_init(probe);
        *run = (struct probe_run){ .params = params, .probe = probe, .err = &probe->error, .numa_node = -1 };
        ask(run, peer);
        probe_release(run);
    } else {
        zc_error_set(&peer->error, ZC_ERR_RESOURCE, -ENOMEM, NULL, "no memory to ask the peer with");
    }
    free(run);
    free(probe);
}

/* ---- checks ---- */

static bool answered(const struct zc_doctor_peer *peer)
{
    return peer->asked && peer->error.kind == ZC_ERR_NONE;
}

bool doctor_peer(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_doctor_peer *const peer = &facts->peer;
    if (!peer->asked) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "no peer is named, so nothing is known of the path to one");
        doctor_fix(finding, "zcctl doctor --peer HOST");
    } else if (!answered(peer)) {
        doctor_say(finding, ZC_FINDING_BAD, "%s", peer->error.message);
        doctor_fix(finding, "see that zcrdmad runs there (`systemctl status zcrdmad`) and that nothing between filters its port");
    } else if (peer->self) {
        doctor_say(finding, ZC_FINDING_NOTE, "the peer is this daemon itself: both sides share CPUs, memory and device");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "%s answers", peer->name);
    }
    return true;
}

static void blocked(const struct zc_doctor_peer *peer, uint32_t own, struct zc_finding *finding)
{
    if (!peer->short_read) {
        doctor_say(finding, ZC_FINDING_BAD, "the peer accepts a connection, but no READ comes through: %.200s", peer->why);
        doctor_fix(finding, "see the log of zcrdmad on both hosts; a firewall may drop UDP port 4791");
        return;
    }
    char ports[80] = "";
    if (peer->active_mtu != 0 && peer->active_mtu != own)
        snprintf(ports, sizeof ports, "; the peer's port has an MTU of %" PRIu32 ", this one %" PRIu32, peer->active_mtu, own);
    doctor_say(finding, ZC_FINDING_BAD, "a READ of 8 bytes comes through and one of %" PRIu32 " does not (%.120s): packets of %" PRIu32
               " bytes do not pass%s", peer->long_read_bytes, peer->why, peer->path_mtu ? peer->path_mtu : own, ports);
    doctor_fix(finding, "give both ports, and every switch between them, the same MTU");
}

/* The answer to a READ comes in packets of the path's MTU: one that takes several shows that they get through. On RoCE that MTU is this
 * port's own, whatever the peer's is; on InfiniBand the subnet manager has made it the least on the way. */
bool doctor_peer_mtu(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_doctor_peer *const peer = &facts->peer;
    const uint32_t own = facts->device.active_mtu;
    if (!answered(peer))
        return false;
    if (!peer->long_read) {
        blocked(peer, own, finding);
    } else if (peer->active_mtu != 0 && own != 0 && peer->active_mtu != own) {
        doctor_say(finding, ZC_FINDING_WARN, "the peer's port has an MTU of %" PRIu32 " bytes, this one %" PRIu32, peer->active_mtu, own);
        doctor_fix(finding, "give both ports the same MTU: raise that of %s", peer->active_mtu < own ? "the peer's port" : "this port");
    } else if (peer->path_mtu == 0) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "a READ of %" PRIu32 " bytes comes through; the device does not tell the path's MTU",
                   peer->long_read_bytes);
    } else if (peer->path_mtu < own) {
        doctor_say(finding, ZC_FINDING_WARN, "the path has an MTU of %" PRIu32 " bytes, this port one of %" PRIu32, peer->path_mtu, own);
        doctor_fix(finding, "raise the MTU %s", peer->active_mtu ? "between the two ports, which have the same" : "of the peer's port");
    } else if (peer->active_mtu == 0) {
        doctor_say(finding, ZC_FINDING_OK, "packets of %" PRIu32 " bytes come through; the peer, an earlier release, does not tell its own MTU",
                   peer->path_mtu);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "both ports have an MTU of %" PRIu32 " bytes, and packets of it come through", own);
    }
    return true;
}

static const char *gid_kind(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    if (memcmp(gid->raw, mapped, sizeof mapped) == 0)
        return "IPv4";
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80 ? "link-local" : "IPv6";
}

/* "RoCE v2", "IB/RoCE v1" */
static bool routes_not(const struct zc_doctor_facts *facts)
{
    char type[32];
    return doctor_line(facts, type, sizeof type, "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%u", facts->device.name,
                       facts->device.port, facts->peer.own_gid_index) && strstr(type, "v1") != NULL;
}

bool doctor_peer_gid(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_doctor_peer *const peer = &facts->peer;
    if (!answered(peer))
        return false;
    if (!peer->gids) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the device does not tell which GIDs the connection uses");
        return true;
    }
    char own[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, peer->own_gid.raw, own, sizeof own);
    inet_ntop(AF_INET6, peer->peer_gid.raw, other, sizeof other);
    const bool ethernet = strcmp(facts->device.link_layer, "Ethernet") == 0;
    if (ethernet && strcmp(gid_kind(&peer->own_gid), gid_kind(&peer->peer_gid)) != 0) {
        doctor_say(finding, ZC_FINDING_WARN, "this side uses GID %u, %s (%s), the peer %s (%s)", peer->own_gid_index, own,
                   gid_kind(&peer->own_gid), other, gid_kind(&peer->peer_gid));
        doctor_fix(finding, "name the peer by an address of the family that both ports have");
    } else if (ethernet && routes_not(facts)) {
        doctor_say(finding, ZC_FINDING_WARN, "the connection uses GID %u, which is RoCE v1: it passes no router and has no ECN",
                   peer->own_gid_index);
        doctor_fix(finding, "cma_roce_mode -d %s -p %u -m 2", facts->device.name, facts->device.port);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "GID %u, %s, to %s", peer->own_gid_index, own, other);
    }
    return true;
}

bool doctor_peer_reads(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_doctor_peer *const peer = &facts->peer;
    if (!answered(peer))
        return false;
    if (peer->outstanding_reads < 8 && peer->outstanding_reads < facts->device.max_qp_init_rd_atom) {
        doctor_say(finding, ZC_FINDING_WARN, "%" PRIu32 " READs a QP were agreed on, this device could have %" PRIu32 " outstanding",
                   peer->outstanding_reads, facts->device.max_qp_init_rd_atom);
        doctor_fix(finding, "spread them with --qps; the peer's max_qp_rd_atom is the limit");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "%" PRIu32 " READs a QP", peer->outstanding_reads);
    }
    return true;
}
