/* Between memory.c, window.c and pin.c: the table of keys, which regions and windows share, and pinning. */
#ifndef ZCSOFT_MEMORY_H
#define ZCSOFT_MEMORY_H

#include "soft.h"

#define ZS_KEY_SLOT(key) ((key) >> 8)
#define ZS_NO_SLOT UINT32_MAX
#define ZS_ACCESS_LOCAL (1u << 31) /* in a slot's access: the key is an lkey too */

/* Guards everything about slots but their reading by the device: who has which, and windows on regions. */
extern pthread_mutex_t zs_table_lock;

/* All with zs_table_lock held. */
uint32_t zs_slot_take(void *owner); /* ZS_NO_SLOT when there is none */
void zs_slot_give(uint32_t slot);
void *zs_slot_owner(uint32_t slot); /* struct zs_mr or struct zs_mw: its first member tells; NULL when free */
struct zs_mr_slot *zs_slot(uint32_t slot);
uint32_t zs_slot_next_key(uint32_t slot);            /* one that it has not had for long */
void zs_slot_last_key(uint32_t slot, uint32_t key);  /* chosen by somebody else */
void zs_slot_wait(uint32_t slot);                    /* until the device has let go of a key that is 0 now */

/* pin.c: page reference counts, mlock, the charge against RLIMIT_MEMLOCK. 0 or a positive errno. */
int zs_pin(uintptr_t addr, size_t length, bool writable, size_t *charged);
void zs_unpin(uintptr_t addr, size_t length, size_t charged);

#endif
