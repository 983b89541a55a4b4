/* A bounded queue of indices for any number of producers and consumers, without locks (the scheme of turn numbers in the cells is
 * D. Vyukov's). Sized at set-up for all items that there are, so it is never full. Ours and not libck's: that one's atomics are inline
 * assembly, which ThreadSanitizer cannot see through, and every access here must be visible to it. */
#ifndef ZC_QUEUE_H
#define ZC_QUEUE_H

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { ZC_QUEUE_LINE = 64 };

/* A cell's turn says whose it is: the position of the next push into it, or that position + 1 when it holds an item. */
struct zc_queue_cell {
    atomic_uint turn;
    uint32_t item;
};

struct zc_queue {
    struct zc_queue_cell *cells;
    uint32_t mask;
    alignas(ZC_QUEUE_LINE) atomic_uint tail;    /* apart from each other: producers and consumers write them */
    alignas(ZC_QUEUE_LINE) atomic_uint head;
};

/* For at most `items` items at a time, 1 .. 2^31. 0 or -ENOMEM. Undone by free(queue->cells). */
static inline int zc_queue_create(struct zc_queue *queue, uint32_t items)
{
    uint32_t count = 2;
    while (count < items)
        count *= 2;
    queue->cells = calloc(count, sizeof *queue->cells);
    queue->mask = count - 1;
    atomic_init(&queue->tail, 0);
    atomic_init(&queue->head, 0);
    for (uint32_t i = 0; queue->cells && i < count; i++)
        atomic_init(&queue->cells[i].turn, i);
    return queue->cells ? 0 : -ENOMEM;
}

/* Turns are written and read sequentially consistent, because zc_alarm and the sleep of workers.c rest on it. */
static inline void zc_queue_push(struct zc_queue *queue, uint32_t item)
{
    uint32_t at = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    struct zc_queue_cell *cell;
    for (;;) {
        cell = &queue->cells[at & queue->mask];
        /* Not its turn yet: another producer was faster, or the consumer of the last round is about to leave the cell. */
        if (atomic_load_explicit(&cell->turn, memory_order_acquire) != at)
            at = atomic_load_explicit(&queue->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&queue->tail, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
            break;
    }
    cell->item = item;
    atomic_store(&cell->turn, at + 1);
}

/* False: empty. */
static inline bool zc_queue_pop(struct zc_queue *queue, uint32_t *item)
{
    uint32_t at = atomic_load_explicit(&queue->head, memory_order_relaxed);
    struct zc_queue_cell *cell;
    for (;;) {
        cell = &queue->cells[at & queue->mask];
        const uint32_t turn = atomic_load(&cell->turn);
        if (turn == at)
            return false;
        if (turn != at + 1)
            at = atomic_load_explicit(&queue->head, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&queue->head, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
            break;
    }
    *item = cell->item;
    atomic_store_explicit(&cell->turn, at + queue->mask + 1, memory_order_release);
    return true;
}

/* Would a pop find something? */
static inline bool zc_queue_any(const struct zc_queue *queue)
{
    const uint32_t at = atomic_load_explicit(&queue->head, memory_order_relaxed);
    return atomic_load(&queue->cells[at & queue->mask].turn) != at;
}

#endif
