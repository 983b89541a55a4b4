/* Buffers and their registration. Set-up only, but for zc_mr_register()/zc_mr_deregister(), which the zero-copy strategies call
 * on the data path. */
#ifndef ZC_MEMORY_H
#define ZC_MEMORY_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "error.h"

struct zc_buffer {
    void *address;          /* page-aligned; NULL: none */
    size_t length_bytes;    /* as asked for */
    size_t mapped_bytes;
    int numa_node;          /* the node it is bound to, -1: not bound */
};

/* Anonymous private memory (mmap(2)) of the system's default kind of pages between two inaccessible pages, bound to `numa_node`
 * (-1: not; where binding is impossible or forbidden, as in many containers, buffer->numa_node tells) and written once on every
 * page, so that no fault happens later. ZC_ERR_RESOURCE names the size. */
int zc_buffer_create(size_t length_bytes, int numa_node, struct zc_buffer *buffer, struct zc_error *err);
void zc_buffer_destroy(struct zc_buffer *buffer);
/* Bytes of it on huge pages now (/proc/self/smaps); ZC_UNMEASURED if unknown. Allocates; not on the data path. */
uint64_t zc_buffer_huge_bytes(const struct zc_buffer *buffer);

/* ibv_reg_mr(3) with counting and one clear error: under RLIMIT_MEMLOCK it is ZC_ERR_MEMLOCK with limit, need and fix (and how
 * many bytes this process holds registered already). `what` names the memory in the message, such as "staging memory". */
int zc_mr_register(const struct zc_device *device, void *address, size_t length_bytes, int access, const char *what,
                   struct ibv_mr **mr, struct zc_error *err);
void zc_mr_deregister(struct ibv_mr *mr);   /* NULL is allowed */

#endif
