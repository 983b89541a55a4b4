/* See network.h. */
#include "network.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_MAX = 64, V4_BITS = 96 };      /* an IPv4 prefix is that much longer as a mapped one */
static const uint8_t V4_PREFIX[12] = {[10] = 0xff, [11] = 0xff};

static bool parse_address(const char *text, struct zc_network *network, unsigned *first_bit)
{
    if (inet_pton(AF_INET, text, network->address + sizeof(V4_PREFIX)) == 1) {
        memcpy(network->address, V4_PREFIX, sizeof(V4_PREFIX));
        *first_bit = V4_BITS;
        return true;
    }
    *first_bit = 0;
    return inet_pton(AF_INET6, text, network->address) == 1;
}

static bool parse_prefix(const char *text, unsigned first_bit, struct zc_network *network)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    unsigned long bits = strtoul(text, &end, 10);
    if (*end || bits > 128 - first_bit)
        return false;
    network->prefix_bits = (uint8_t)(bits + first_bit);
    return true;
}

static bool bit(const uint8_t *address, unsigned index)
{
    return address[index / 8] >> (7 - index % 8) & 1;
}

static int parse_entry(const char *entry, struct zc_network *network, struct zc_error *err)
{
    char address[ENTRY_MAX];
    unsigned first_bit;
    const char *slash = strchr(entry, '/');
    size_t length = slash ? (size_t)(slash - entry) : strlen(entry);
    memcpy(address, entry, length);
    address[length] = '\0';
    if (!parse_address(address, network, &first_bit))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "'%s' is no numeric address", address);
    network->prefix_bits = 128;
    if (slash && !parse_prefix(slash + 1, first_bit, network))
        return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "'%s' has no prefix length from 0 to %u", entry, 128 - first_bit);
    for (unsigned i = network->prefix_bits; i < 128; i++)
        if (bit(network->address, i))
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "'%s' is no network: bits are set behind its prefix", entry);
    return 0;
}

int zc_networks_parse(const char *text, struct zc_networks *networks, struct zc_error *err)
{
    struct zc_networks parsed = {0};
    const char *at = text + strspn(text, " \t");
    while (*at) {
        char entry[ENTRY_MAX];
        size_t length = strcspn(at, ",");
        const char *next = at + length;
        while (length > 0 && isspace((unsigned char)at[length - 1]))
            length--;
        if (length == 0 || length >= sizeof(entry))
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "'%.100s' has an entry that is no network", text);
        if (parsed.count == ZC_NETWORKS_MAX)
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "there are more than %d networks", ZC_NETWORKS_MAX);
        memcpy(entry, at, length);
        entry[length] = '\0';
        int rc = parse_entry(entry, &parsed.list[parsed.count++], err);
        if (rc)
            return rc;
        if (*next == ',' && !next[1 + strspn(next + 1, " \t")])
            return zc_error_set(err, ZC_ERR_INVALID, -EINVAL, NULL, "'%.100s' ends with a comma", text);
        at = *next ? next + 1 + strspn(next + 1, " \t") : next;
    }
    *networks = parsed;
    return 0;
}

static bool contains(const struct zc_network *network, const uint8_t address[16])
{
    unsigned bytes = network->prefix_bits / 8, rest = network->prefix_bits % 8;
    if (memcmp(network->address, address, bytes) != 0)
        return false;
    return rest == 0 || (network->address[bytes] ^ address[bytes]) >> (8 - rest) == 0;
}

bool zc_networks_contain(const struct zc_networks *networks, const struct sockaddr *address)
{
    uint8_t bytes[16];
    if (address->sa_family == AF_INET) {
        memcpy(bytes, V4_PREFIX, sizeof(V4_PREFIX));
        memcpy(bytes + sizeof(V4_PREFIX), &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof(bytes));
    } else {
        return false;
    }
    for (uint32_t i = 0; i < networks->count; i++)
        if (contains(&networks->list[i], bytes))
            return true;
    return false;
}
