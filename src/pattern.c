/* The region's pattern. Filled by the responder, checked by the requester's validation passes, so it must keep up with memory:
 * the word loops have no branch that depends on the data. */
#include "pattern.h"

#include <endian.h>
#include <string.h>

enum { WORD = 8, BLOCK_WORDS = 32 };    /* words compared between two looks at the outcome */

/* Steele, Lea, Flood: "Fast splittable pseudorandom number generators", the finaliser with Stafford's variant 13 constants. A
 * bijection, so with one seed no two words of a region are equal. */
static inline uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The seed is mixed before it meets the offset: regions with neighbouring seeds are not shifted copies of each other. */
static inline uint64_t word_at(uint64_t word_index, uint64_t mixed_seed)
{
    return htole64(mix(word_index * UINT64_C(0x9e3779b97f4a7c15) + mixed_seed));
}

static inline uint8_t byte_of(uint64_t word, uint64_t offset)
{
    return ((const uint8_t *)&word)[offset % WORD];
}

uint8_t zc_pattern_byte(uint64_t offset, uint64_t seed)
{
    return byte_of(word_at(offset / WORD, mix(seed)), offset);
}

/* Bytes before the first whole word, at most length. */
static size_t head_length(size_t length, uint64_t offset)
{
    size_t head = (size_t)(-offset % WORD);
    return head < length ? head : length;
}

static inline void fill(uint8_t *at, size_t length, uint64_t offset, uint64_t seed, uint64_t flip)
{
    const uint64_t mixed = mix(seed);
    const size_t head = head_length(length, offset);
    for (size_t i = 0; i < head; i++)
        at[i] = (uint8_t)(byte_of(word_at((offset + i) / WORD, mixed), offset + i) ^ (uint8_t)flip);
    at += head, offset += head, length -= head;

    const uint64_t first = offset / WORD;
    const size_t words = length / WORD;
    for (size_t i = 0; i < words; i++) {
        const uint64_t word = word_at(first + i, mixed) ^ flip;
        memcpy(at + i * WORD, &word, WORD);
    }
    const uint64_t last = word_at(first + words, mixed) ^ flip;
    memcpy(at + words * WORD, &last, length % WORD);
}

void zc_pattern_fill(void *bytes, size_t length, uint64_t offset, uint64_t seed)
{
    fill(bytes, length, offset, seed, 0);
}

void zc_pattern_poison(void *bytes, size_t length, uint64_t offset, uint64_t seed)
{
    fill(bytes, length, offset, seed, UINT64_MAX);
}

/* Index of the first wrong byte of `length`, or length: byte by byte, for ends and for a block known to be wrong. */
static size_t first_wrong(const uint8_t *at, size_t length, uint64_t offset, uint64_t mixed)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != byte_of(word_at((offset + i) / WORD, mixed), offset + i))
            return i;
    return length;
}

static inline uint64_t block_difference(const uint8_t *at, uint64_t first, uint64_t mixed)
{
    uint64_t difference = 0;
    for (size_t i = 0; i < BLOCK_WORDS; i++) {
        uint64_t word;
        memcpy(&word, at + i * WORD, WORD);
        difference |= word ^ word_at(first + i, mixed);
    }
    return difference;
}

bool zc_pattern_check(const void *bytes, size_t length, uint64_t offset, uint64_t seed, size_t *bad)
{
    const uint8_t *at = bytes;
    const uint64_t mixed = mix(seed);
    const size_t head = head_length(length, offset);
    size_t done = first_wrong(at, head, offset, mixed);
    if (done == head) {
        const size_t block = (size_t)BLOCK_WORDS * WORD;
        while (length - done >= block && block_difference(at + done, (offset + done) / WORD, mixed) == 0)
            done += block;
        done += first_wrong(at + done, length - done < block ? length - done : block, offset + done, mixed);
    }
    if (done == length)
        return true;
    *bad = done;
    return false;
}
