/* Checks of the card and of its port. See doctor_private.h. */
#include "doctor_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double busy_bytes_per_s = 1 << 20;     /* traffic of others below it spoils nothing */

static bool has_no_hardware(const struct zc_doctor_facts *facts, const char *thing, struct zc_finding *finding)
{
    if (facts->device.name[0] != '\0' && facts->device.kind == ZC_DEVICE_HARDWARE)
        return false;
    if (facts->device.name[0] == '\0')
        doctor_say(finding, ZC_FINDING_UNKNOWN, "there is no device");
    else
        doctor_say(finding, ZC_FINDING_OK, "does not apply: %s is software and has no %s", facts->device.name, thing);
    return true;
}

bool doctor_device(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_device_info *const device = &facts->device;
    if (device->name[0] == '\0') {
        doctor_say(finding, ZC_FINDING_BAD, "zcrdmad has no RDMA device");
        doctor_fix(finding, "load the driver of the card (`rdma link` lists what there is), or set device = soft");
    } else if (device->kind == ZC_DEVICE_SOFTWARE) {
        doctor_say(finding, ZC_FINDING_WARN, "%s is the software device: the CPUs of this host move the bytes, and figures say nothing "
                   "about a NIC%s%s", device->name, device->model[0] ? "; it plays a model: " : "", device->model);
        doctor_fix(finding, "set device = NAME of a card in zcrdmad.conf (`rdma link` lists them) and restart zcrdmad");
    } else if (device->kind == ZC_DEVICE_RXE) {
        doctor_say(finding, ZC_FINDING_WARN, "%s is Soft-RoCE: the kernel moves the bytes with the CPU, and figures say nothing about a NIC",
                   device->name);
        doctor_fix(finding, "set device = NAME of a card in zcrdmad.conf (`rdma link` lists them) and restart zcrdmad");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "%s is hardware, firmware %s", device->name,
                   device->firmware[0] ? device->firmware : "not known");
    }
    return true;
}

bool doctor_port(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_device_info *const device = &facts->device;
    if (device->name[0] == '\0') {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "there is no device");
    } else if (strcmp(device->port_state, "ACTIVE") != 0) {
        doctor_say(finding, ZC_FINDING_BAD, "port %u of %s is %s", device->port, device->name, device->port_state);
        if (strcmp(device->link_layer, "InfiniBand") == 0)
            doctor_fix(finding, "check the cable, and that a subnet manager runs (`ibstat`, `sminfo`)");
        else
            doctor_fix(finding, "check the cable; ip link set %s up", device->netdev[0] ? device->netdev : "INTERFACE");
    } else if (device->address[0] == '\0') {
        doctor_say(finding, ZC_FINDING_BAD, "port %u of %s is ACTIVE, but has no IP address, by which peers are found", device->port,
                   device->name);
        doctor_fix(finding, "ip address add ADDRESS/PREFIX dev %s", device->netdev[0] ? device->netdev : "INTERFACE");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "port %u of %s is ACTIVE with address %s", device->port, device->name, device->address);
    }
    return true;
}

/* "100 Gb/sec (4X EDR)" */
bool doctor_rate(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_device_info *const device = &facts->device;
    char rate[64];
    double gbit;
    int lanes = 0;
    if (has_no_hardware(facts, "link", finding))
        return true;
    if (!doctor_line(facts, rate, sizeof rate, "/sys/class/infiniband/%s/ports/%u/rate", device->name, device->port) ||
        sscanf(rate, "%lf Gb/sec (%dX", &gbit, &lanes) != 2) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "%s does not tell the rate of port %u", device->name, device->port);
    } else if (strcmp(device->link_layer, "InfiniBand") == 0 && (lanes < 4 || gbit / lanes < 10)) {
        doctor_say(finding, ZC_FINDING_WARN, "the link has come up with %s: cards and cables of today have 4 lanes of 10 Gb/sec and more",
                   rate);
        doctor_fix(finding, "check cable and switch port (`iblinkinfo`); pull and plug the cable");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "the link runs at %s", rate);
    }
    return true;
}

struct pcie {
    double speed, width, max_speed, max_width;  /* GT/s and lanes */
};

static bool pcie_read(const struct zc_doctor_facts *facts, struct pcie *link)
{
    const char *const name = facts->device.name;
    return doctor_number(facts, &link->speed, "/sys/class/infiniband/%s/device/current_link_speed", name) &&
           doctor_number(facts, &link->width, "/sys/class/infiniband/%s/device/current_link_width", name) &&
           doctor_number(facts, &link->max_speed, "/sys/class/infiniband/%s/device/max_link_speed", name) &&
           doctor_number(facts, &link->max_width, "/sys/class/infiniband/%s/device/max_link_width", name) &&
           link->speed > 0 && link->width > 0;
}

/* 8 of 10 bits are data up to 5 GT/s, 128 of 130 above (PCI Express Base Specification, "Encoding"). */
static double pcie_gbit(double speed, double width)
{
    return speed * width * (speed <= 5 ? 0.8 : 128.0 / 130);
}

bool doctor_pcie(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    struct pcie link;
    if (has_no_hardware(facts, "PCIe link", finding))
        return true;
    if (!pcie_read(facts, &link)) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "%s does not tell its PCIe link (a virtual function, or not on PCIe)", facts->device.name);
        return true;
    }
    const double gbit = pcie_gbit(link.speed, link.width), rate = facts->device.rate_gbit_per_s;
    if (link.speed < link.max_speed || link.width < link.max_width) {
        doctor_say(finding, ZC_FINDING_WARN, "the PCIe link runs with %g lanes of %g GT/s, the card can do %g of %g", link.width, link.speed,
                   link.max_width, link.max_speed);
        doctor_fix(finding, "put the card into a slot with %g lanes of %g GT/s, and look for a limit in the firmware set-up", link.max_width,
                   link.max_speed);
    } else if (!isnan(rate) && gbit < rate) {
        doctor_say(finding, ZC_FINDING_WARN, "the PCIe link carries %.0f Gbit/s at most, the port %g", gbit, rate);
        doctor_fix(finding, "nothing on this host: the card has fewer lanes than its port needs; take %.0f Gbit/s for the ceiling", gbit);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "the PCIe link has %g lanes of %g GT/s (%.0f Gbit/s), the card's best", link.width, link.speed,
                   gbit);
    }
    return true;
}

bool doctor_mtu(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_device_info *const device = &facts->device;
    if (device->active_mtu == 0 || device->max_mtu == 0) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "the MTU is not known");
    } else if (device->active_mtu < device->max_mtu) {
        doctor_say(finding, ZC_FINDING_WARN, "the MTU is %u bytes, the port can do %u", device->active_mtu, device->max_mtu);
        if (strcmp(device->link_layer, "InfiniBand") == 0)
            doctor_fix(finding, "the subnet manager sets it (opensm: partitions.conf, mtu=5 is 4096)");
        else    /* headers of RoCE v2 must fit in beside the payload */
            doctor_fix(finding, "ip link set %s mtu %u, on the peer and on every switch between, too",
                       device->netdev[0] ? device->netdev : "INTERFACE", device->max_mtu >= 4096 ? 9000 : device->max_mtu + 104);
    } else {
        doctor_say(finding, ZC_FINDING_OK, "the MTU is %u bytes, the port's largest", device->active_mtu);
    }
    return true;
}

bool doctor_rd_atomic(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const struct zc_device_info *const device = &facts->device;
    const uint32_t own = device->max_qp_init_rd_atom, answered = device->max_qp_rd_atom;
    if (device->name[0] == '\0') {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "there is no device");
    } else if (own == 0 || answered == 0) {
        doctor_say(finding, ZC_FINDING_BAD, "%s can have %u READs outstanding and answer %u a QP: with 0 none completes", device->name, own,
                   answered);
        doctor_fix(finding, "update firmware and driver, or use another device");
    } else if (own < 8 || answered < 8) {
        doctor_say(finding, ZC_FINDING_WARN, "%s can have %u READs outstanding and answer %u a QP: short ones will not fill the wire",
                   device->name, own, answered);
        doctor_fix(finding, "spread them with --qps %u or more", (8 + (own < answered ? own : answered) - 1) / (own < answered ? own : answered));
    } else {
        doctor_say(finding, ZC_FINDING_OK, "%u READs may be outstanding and %u answered a QP", own, answered);
    }
    return true;
}

bool doctor_odp(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    if (facts->device.name[0] == '\0')
        doctor_say(finding, ZC_FINDING_UNKNOWN, "there is no device");
    else if (facts->device.odp)
        doctor_say(finding, ZC_FINDING_OK, "%s can page on demand", facts->device.name);
    else
        doctor_say(finding, ZC_FINDING_NOTE, "%s cannot page on demand: memory must be registered, page by page, before each READ into it",
                   facts->device.name);
    return true;
}

bool doctor_relaxed_ordering(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    if (facts->relaxed_ordering < 0)
        doctor_say(finding, ZC_FINDING_UNKNOWN, "not tried");
    else if (facts->device.kind == ZC_DEVICE_HARDWARE && facts->relaxed_ordering == 0) {
        doctor_say(finding, ZC_FINDING_NOTE, "%s refuses memory with relaxed ordering: large READs may reach less than the link's rate",
                   facts->device.name);
        doctor_fix(finding, "update kernel and rdma-core; allow it in the firmware set-up");
    } else if (!has_no_hardware(facts, "ordering of writes on PCIe", finding))
        doctor_say(finding, ZC_FINDING_OK, "memory with relaxed ordering is accepted (a device that does not know it ignores it), and runs ask for it");
    return true;
}

/* The translation is set up for every page of a registration, and taken down after it. */
bool doctor_iommu(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    const char *const name = facts->device.name;
    char type[64];
    if (has_no_hardware(facts, "DMA of its own", finding))
        return true;
    if (!doctor_exists(facts, "/sys/class/infiniband/%s/device", name)) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "%s is not in /sys/class/infiniband", name);
    } else if (!doctor_exists(facts, "/sys/class/infiniband/%s/device/iommu_group", name)) {
        doctor_say(finding, ZC_FINDING_OK, "no IOMMU stands between %s and the memory", name);
    } else if (!doctor_line(facts, type, sizeof type, "/sys/class/infiniband/%s/device/iommu_group/type", name)) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "there is an IOMMU, and the kernel does not tell its mode");
    } else if (strcmp(type, "identity") == 0) {
        doctor_say(finding, ZC_FINDING_OK, "the IOMMU passes %s through (identity)", name);
    } else {
        doctor_say(finding, ZC_FINDING_WARN, "the IOMMU translates for %s (%s): registering costs more for each page", name, type);
        doctor_fix(finding, "boot with iommu=pt, unless the host must be protected from the card");
    }
    return true;
}

/* ---- other users: counters that move while nothing of ours does ---- */

struct traffic {
    bool known;
    double bytes;       /* sent and received since the driver was loaded */
};

/* The port's own counters (in units of 4 bytes) see what bypasses the kernel; those of the interface, all that a driver without them
 * has. */
static struct traffic traffic_read(const struct zc_doctor_facts *facts)
{
    const struct zc_device_info *const device = &facts->device;
    double sent, received;
    if (doctor_number(facts, &sent, "/sys/class/infiniband/%s/ports/%u/counters/port_xmit_data", device->name, device->port) &&
        doctor_number(facts, &received, "/sys/class/infiniband/%s/ports/%u/counters/port_rcv_data", device->name, device->port))
        return (struct traffic){ .known = true, .bytes = 4 * (sent + received) };
    if (device->netdev[0] != '\0' && doctor_number(facts, &sent, "/sys/class/net/%s/statistics/tx_bytes", device->netdev) &&
        doctor_number(facts, &received, "/sys/class/net/%s/statistics/rx_bytes", device->netdev))
        return (struct traffic){ .known = true, .bytes = sent + received };
    return (struct traffic){ .known = false };
}

bool doctor_others(const struct zc_doctor_facts *facts, struct zc_finding *finding)
{
    if (facts->runs_active > 0) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "a run of our own is under way, and others cannot be told from it");
        doctor_fix(finding, "ask again when `zcctl runs` is empty");
        return true;
    }
    if (facts->sessions_open > 0) {
        doctor_say(finding, ZC_FINDING_WARN, "%u session%s of peers are open here, and may read while a run measures", facts->sessions_open,
                   facts->sessions_open == 1 ? "" : "s");
        doctor_fix(finding, "`zcctl sessions` lists them, `zcctl sessions close ID` ends one");
        return true;
    }
    if (facts->device.kind == ZC_DEVICE_SOFTWARE && facts->device.name[0] != '\0') {
        doctor_say(finding, ZC_FINDING_OK, "no session of a peer is open; the software device has no port that others could use");
        return true;
    }
    const struct traffic before = traffic_read(facts);
    if (before.known)
        facts->pause(facts->pause_arg);
    const struct traffic after = before.known ? traffic_read(facts) : before;
    const double rate = (after.bytes - before.bytes) / facts->pause_s;
    if (!before.known || !after.known || rate < 0) {
        doctor_say(finding, ZC_FINDING_UNKNOWN, "neither port nor interface have counters that can be read");
    } else if (rate >= busy_bytes_per_s) {
        doctor_say(finding, ZC_FINDING_WARN, "somebody else moves %.1f MiB/s through the port", rate / 0x1p20);
        doctor_fix(finding, "`rdma resource show qp` and `ss -tin` name the users; measure when they are gone");
    } else {
        doctor_say(finding, ZC_FINDING_OK, "the port is idle (%.0f bytes/s)", rate);
    }
    return true;
}
