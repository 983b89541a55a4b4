/* Text of the options: names and their nearest ones, sizes, peers. See options.h. */
#include "options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEAREST_MAX = 40 };      /* longer names are not compared */

static char fold(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static bool same_name(const char *name, const char *text, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != (text[i] == '-' ? '_' : text[i]))
            return false;
    return true;
}

struct zc_option_word zc_option_dashed(const char *name)
{
    struct zc_option_word word;

    snprintf(word.text, sizeof(word.text), "%s", name);
    for (char *c = word.text; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    return word;
}

const struct zc_option *zc_option_find(const char *name, size_t length)
{
    size_t count;
    const struct zc_option *options = zc_options(&count);

    for (size_t i = 0; i < count; i++)
        if (same_name(options[i].name, name, length))
            return &options[i];
    return NULL;
}

const struct zc_option *zc_option_find_letter(char letter)
{
    size_t count;
    const struct zc_option *options = zc_options(&count);

    for (size_t i = 0; i < count; i++)
        if (letter != 0 && options[i].letter == letter)
            return &options[i];
    return NULL;
}

int zc_choice_find(const char *const *choices, const char *name)
{
    for (int i = 0; choices[i] != NULL; i++)
        if (same_name(choices[i], name, strlen(name)))
            return i;
    return -1;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and exchanges of neighbours that turn a into b (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_MAX + 1], la = strlen(a), lb = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= lb; j++)
        last[j] = j;
    for (size_t i = 1; i <= la; i++) {
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t cost = fold(a[i - 1]) != fold(b[j - 1]);
            row[j] = least(least(last[j] + 1, row[j - 1] + 1), last[j - 1] + cost);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[lb];
}

static bool begins_with(const char *name, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] == '\0' || fold(name[i]) != fold(text[i]))
            return false;
    return true;
}

/* How far `text` is from `name`: 0 nearest, SIZE_MAX too far. An abbreviation is nearer than a mistyped name. */
static size_t farness(const char *name, const char *text)
{
    size_t length = strlen(text), changes;

    if (length < 2 || length > NEAREST_MAX || strlen(name) > NEAREST_MAX)
        return SIZE_MAX;
    if (begins_with(name, text, length))
        return 0;
    changes = distance(text, name);
    return changes <= (length < 6 ? 1 : length / 3) ? changes : SIZE_MAX;
}

const char *zc_choice_nearest(const char *const *choices, const char *name)
{
    const char *best = NULL;
    size_t best_farness = SIZE_MAX;

    for (int i = 0; choices[i] != NULL; i++) {
        size_t far = farness(choices[i], name);
        if (far < best_farness) {
            best = choices[i];
            best_farness = far;
        }
    }
    return best;
}

const char *zc_option_nearest(const char *name)
{
    const char *names[65] = { NULL };
    size_t count;
    const struct zc_option *options = zc_options(&count);

    for (size_t i = 0; i < count && i < 64; i++)
        names[i] = options[i].name;
    return zc_choice_nearest(names, name);
}

int zc_size_parse(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    unsigned long long number;
    unsigned shift = 0;
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    errno = 0;
    number = strtoull(text, &end, 10);
    int overflow = errno;
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, toupper((unsigned char)*end));
        if (suffix == NULL)
            return -EINVAL;
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        end++;
        if (strcasecmp(end, "iB") != 0 && *end != '\0')     /* not "KB": it means 1000 to some */
            return -EINVAL;
    }
    if (overflow != 0 || number > UINT64_MAX >> shift)
        return -ERANGE;
    *bytes = (uint64_t)number << shift;
    return 0;
}

char *zc_size_format(uint64_t bytes, char *buffer, size_t length)
{
    static const char *const suffixes[] = { "", "K", "M", "G", "T" };
    int i = 0;

    for (; bytes != 0 && bytes % 1024 == 0 && i < 4; i++)
        bytes /= 1024;
    snprintf(buffer, length, "%llu%s", (unsigned long long)bytes, suffixes[i]);
    return buffer;
}

static int bad_peer(const char *peer, const char *why, struct zc_error *err)
{
    return zc_error_set(err, ZC_ERR_INVALID, EINVAL, "peer", "peer: \"%.100s\" %s", peer, why);
}

static bool is_v6(const char *host)
{
    char address[INET6_ADDRSTRLEN] = "";
    struct in6_addr in6;
    size_t length = strcspn(host, "%");

    if (length >= sizeof(address) || (host[length] == '%' && host[length + 1] == '\0'))
        return false;
    memcpy(address, host, length);
    return inet_pton(AF_INET6, address, &in6) == 1;
}

static bool is_name(const char *host)
{
    size_t length = strlen(host);

    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)host[i]) && strchr(".-_", host[i]) == NULL)
            return false;
    return length > 0 && host[0] != '-';
}

/* `text` is what stands behind the colon. */
static int parse_port(const char *peer, const char *text, uint16_t *port, struct zc_error *err)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long number = digits > 0 && digits < 7 ? strtoul(text, NULL, 10) : 0;

    if (text[digits] != '\0' || number < 1 || number > 65535)
        return bad_peer(peer, "has no port between 1 and 65535 behind its colon", err);
    *port = (uint16_t)number;
    return 0;
}

int zc_peer_split(const char *peer, char *host, uint16_t *port, struct zc_error *err)
{
    const char *begin = peer, *end, *port_text = NULL;
    char found[ZC_PEER_MAX];
    uint16_t number = 0;
    bool bracket = peer[0] == '[', many_colons = strchr(peer, ':') != strrchr(peer, ':'), v6 = bracket || many_colons;

    if (bracket) {
        begin++;
        end = strchr(begin, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return bad_peer(peer, "is not [ADDRESS] or [ADDRESS]:PORT", err);
        port_text = end[1] == ':' ? end + 2 : NULL;
    } else {
        end = many_colons ? peer + strlen(peer) : peer + strcspn(peer, ":");
        port_text = *end == ':' ? end + 1 : NULL;
    }
    if ((size_t)(end - begin) >= sizeof(found))
        return bad_peer(peer, "is too long", err);
    memcpy(found, begin, (size_t)(end - begin));
    found[end - begin] = '\0';
    if (v6 && !is_v6(found))
        return bad_peer(peer, "is not an IPv6 address (with a port it is [ADDRESS]:PORT)", err);
    if (!v6 && !is_name(found))
        return bad_peer(peer, "is not a host name or address", err);
    if (port_text != NULL) {
        int rc = parse_port(peer, port_text, &number, err);
        if (rc != 0)
            return rc;
    }
    strcpy(host, found);
    *port = number;
    return 0;
}
