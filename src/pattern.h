/* What the region holds: each aligned 64-bit word is a mix of its absolute offset and the seed, so that any byte sequence of 8 or
 * more tells where it came from, and a chunk that landed in another's place is caught. Any thread; no allocation. */
#ifndef ZC_PATTERN_H
#define ZC_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* offset: absolute, in bytes; `bytes` and it may have any alignment. */
void zc_pattern_fill(void *bytes, size_t length, uint64_t offset, uint64_t seed);
/* The same with every byte complemented: none of them can pass for the pattern. For a buffer that a validated READ must overwrite. */
void zc_pattern_poison(void *bytes, size_t length, uint64_t offset, uint64_t seed);
uint8_t zc_pattern_byte(uint64_t offset, uint64_t seed);
/* true if all match; else *bad is the index in `bytes` of the first wrong one. */
bool zc_pattern_check(const void *bytes, size_t length, uint64_t offset, uint64_t seed, size_t *bad);

#endif
