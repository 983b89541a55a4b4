/* Lists, the spinlock, and from a member to the object that holds it. */
#ifndef ZCSOFT_BASE_H
#define ZCSOFT_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define zs_container(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* --- lists ----------------------------------------------------------------------------------------------------- */

struct zs_list {
    struct zs_list *next, *prev;
};

static inline void zs_list_init(struct zs_list *l)
{
    l->next = l->prev = l;
}

static inline bool zs_list_empty(const struct zs_list *l)
{
    return l->next == l;
}

static inline void zs_list_add(struct zs_list *head, struct zs_list *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

static inline void zs_list_del(struct zs_list *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    zs_list_init(l);
}

/* --- spinlock: among threads of the application only, or with the device thread for a handful of instructions ---- */

typedef struct {
    atomic_flag held;
} zs_spin;

void zs_spin_wait(zs_spin *s);

static inline void zs_spin_lock(zs_spin *s)
{
    if (atomic_flag_test_and_set_explicit(&s->held, memory_order_acquire))
        zs_spin_wait(s);
}

static inline void zs_spin_unlock(zs_spin *s)
{
    atomic_flag_clear_explicit(&s->held, memory_order_release);
}

#endif
