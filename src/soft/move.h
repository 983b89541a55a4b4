/* Moving the bytes of the application's memory: copy.c, guard.c. */
#ifndef ZCSOFT_MOVE_H
#define ZCSOFT_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void zs_copy(void *to, const void *from, size_t n); /* memmove(3), past the caches where that pays */

/* guard.c: the application's memory may not be there any more. All return false then. */
void zs_guard_install(void);
bool zs_move(void *to, const void *from, size_t n);
bool zs_touch(const void *from, size_t n); /* n > 0: reads a byte of every page */
bool zs_change(uint64_t *at, bool add, uint64_t a, uint64_t b, uint64_t *found); /* fetch-and-add, or compare a and swap b */
bool zs_fault_was_in(const void *p, size_t n); /* the last that failed in this thread */

#endif
