/* The registrations of a cache by address: an interval tree, that is a red-black tree by first address in which every node knows the
 * highest end below it. Intervals may overlap. Nothing is allocated: nodes are part of what they index. Private to mr_cache.c. */
#ifndef ZC_MR_INDEX_H
#define ZC_MR_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zc_mr_node;
static inline void zc_mr_index_refresh(struct zc_mr_node *node);
#define RB_AUGMENT(node) zc_mr_index_refresh(node)
#include <bsd/sys/tree.h>

struct zc_mr_node {
    RB_ENTRY(zc_mr_node) tree;
    uintptr_t first, end;       /* [first, end) */
    uintptr_t highest;          /* end in this subtree */
};
RB_HEAD(zc_mr_index, zc_mr_node);

static inline void zc_mr_index_refresh(struct zc_mr_node *node)
{
    const struct zc_mr_node *const left = RB_LEFT(node, tree), *const right = RB_RIGHT(node, tree);
    node->highest = node->end;
    if (left && left->highest > node->highest)
        node->highest = left->highest;
    if (right && right->highest > node->highest)
        node->highest = right->highest;
}

static inline int zc_mr_index_compare(const struct zc_mr_node *a, const struct zc_mr_node *b)
{
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->end == b->end ? 0 : a->end < b->end ? -1 : 1;
}
RB_GENERATE_INTERNAL(zc_mr_index, zc_mr_node, tree, zc_mr_index_compare, static __attribute__((unused)))

/* The macros refresh what they rotate and the parent of what they link, not all that is above it. */
static inline void zc_mr_index_refresh_up(struct zc_mr_node *node)
{
    for (; node; node = RB_PARENT(node, tree))
        zc_mr_index_refresh(node);
}

/* False: exactly this interval is there already. */
static inline bool zc_mr_index_add(struct zc_mr_index *index, struct zc_mr_node *node)
{
    node->highest = node->end;
    if (RB_INSERT(zc_mr_index, index, node))
        return false;
    zc_mr_index_refresh_up(node);
    return true;
}

static inline void zc_mr_index_remove(struct zc_mr_index *index, struct zc_mr_node *node)
{
    struct zc_mr_node *const above = RB_PARENT(node, tree);
    RB_REMOVE(zc_mr_index, index, node);
    zc_mr_index_refresh_up(above);
}

/* One that covers [first, end), or NULL. Where a node begins early enough but ends too early, everything to its left begins early
 * enough, too: if any there reaches far enough, one of them is the answer. */
static inline struct zc_mr_node *zc_mr_index_covering(struct zc_mr_index *index, uintptr_t first, uintptr_t end)
{
    struct zc_mr_node *node = RB_ROOT(index);
    while (node) {
        struct zc_mr_node *const left = RB_LEFT(node, tree);
        if (node->first > first)
            node = left;
        else if (node->end >= end)
            return node;
        else
            node = left && left->highest >= end ? left : RB_RIGHT(node, tree);
    }
    return NULL;
}

/* One that shares a byte with [first, end), or NULL. */
static inline struct zc_mr_node *zc_mr_index_touching(struct zc_mr_index *index, uintptr_t first, uintptr_t end)
{
    struct zc_mr_node *node = RB_ROOT(index);
    while (node) {
        struct zc_mr_node *const left = RB_LEFT(node, tree);
        if (node->first < end && node->end > first)
            return node;
        node = left && left->highest > first ? left : RB_RIGHT(node, tree);
    }
    return NULL;
}

#endif
