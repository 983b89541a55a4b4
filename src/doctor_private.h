/* What the checks share. doctor.c has their table, doctor_nic.c and doctor_host.c the checks. Private to src/. */
#ifndef ZC_DOCTOR_PRIVATE_H
#define ZC_DOCTOR_PRIVATE_H

#include "doctor.h"

/* First line of ROOT/PATH, without its newline; false: it cannot be read or is empty. */
bool doctor_line(const struct zc_doctor_facts *facts, char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The number that it begins with. */
bool doctor_number(const struct zc_doctor_facts *facts, double *number, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Is there such a file or folder? */
bool doctor_exists(const struct zc_doctor_facts *facts, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text behind "KEY:" in a file of such lines. */
bool doctor_value(const struct zc_doctor_facts *facts, const char *path, const char *key, char *value, size_t size);

void doctor_say(struct zc_finding *finding, enum zc_finding_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void doctor_fix(struct zc_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A check fills level, finding and fix; false: it has nothing to look at, and no row. */
typedef bool doctor_check(const struct zc_doctor_facts *facts, struct zc_finding *finding);

doctor_check doctor_device, doctor_port, doctor_rate, doctor_pcie, doctor_mtu, doctor_rd_atomic, doctor_odp, doctor_relaxed_ordering,
    doctor_iommu, doctor_others;
doctor_check doctor_memlock, doctor_numa, doctor_governor, doctor_idle_states, doctor_huge_pages, doctor_thp, doctor_fork_safe,
    doctor_hugepages_safe, doctor_cores, doctor_clock;
doctor_check doctor_peer, doctor_peer_mtu, doctor_peer_gid, doctor_peer_reads;

#endif
