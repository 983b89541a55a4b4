/* Lists of networks in CIDR notation, and whether an address is in one of them. IPv4 and IPv6; an IPv4-mapped address is an IPv4
 * address. No I/O; any thread. */
#ifndef ZC_NETWORK_H
#define ZC_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "error.h"

enum { ZC_NETWORKS_MAX = 64 };

struct zc_network {
    uint8_t address[16];        /* IPv4 as ::ffff:a.b.c.d */
    uint8_t prefix_bits;        /* of the 128 */
};

struct zc_networks {
    uint32_t count;
    struct zc_network list[ZC_NETWORKS_MAX];
};

/* "10.0.0.0/8, 192.168.7.3, fd00::/8": addresses with or without a prefix length, commas between them, white space around them; ""
 * is the empty list. -EINVAL with what is wrong, without the name of the field: a bit set behind the prefix, too many, no address.
 * *networks is written on success. */
int zc_networks_parse(const char *text, struct zc_networks *networks, struct zc_error *err);
/* AF_INET or AF_INET6; any other family is in none. */
bool zc_networks_contain(const struct zc_networks *networks, const struct sockaddr *address);

#endif
