/* Buffers and their registration. Set-up only, but for zc_mr_register()/zc_mr_deregister(), which the zero-copy strategies call
 * on the data path. */
#ifndef ZC_MEMORY_H
#define ZC_MEMORY_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "error.h"
#include "pages.h"

struct zc_buffer {
    void *address;          /* aligned to page_bytes; NULL: none */
    size_t length_bytes;    /* as asked for */
    size_t mapped_bytes;    /* length_bytes in whole pages */
    size_t page_bytes;      /* of the kind that was asked for: 4 KiB, 2 MiB, 1 GiB on x86 */
    int numa_node;          /* the node it is bound to, -1: not bound */
    void *reserved;         /* the mapping with what surrounds it */
    size_t reserved_bytes;
};

/* Anonymous private memory (mmap(2)) of the system's default kind of pages between two inaccessible pages, bound to `numa_node`
 * (-1: not; where binding is impossible or forbidden, as in many containers, buffer->numa_node tells) and written once on every
 * page, so that no fault happens later. ZC_ERR_RESOURCE names the size. */
int zc_buffer_create(size_t length_bytes, int numa_node, struct zc_buffer *buffer, struct zc_error *err);
/* The same with another kind of pages, and a length rounded up to whole ones (those of the pool without anything around them). ZC_PAGES_THP asks (MADV_HUGEPAGE) and may get less:
 * zc_buffer_huge_bytes() tells. The others come from the pool that the administrator reserved; where it is too small, the error
 * names the file that enlarges it, and `field` is "pages". */
int zc_buffer_create_pages(size_t length_bytes, enum zc_pages pages, int numa_node, struct zc_buffer *buffer, struct zc_error *err);
/* Bytes of a page of this kind. */
size_t zc_pages_bytes(enum zc_pages pages);
void zc_buffer_destroy(struct zc_buffer *buffer);
/* Bytes of it on huge pages now (/proc/self/smaps); ZC_UNMEASURED if unknown. Allocates; not on the data path. */
uint64_t zc_buffer_huge_bytes(const struct zc_buffer *buffer);

/* ibv_reg_mr(3) with counting and one clear error: under RLIMIT_MEMLOCK it is ZC_ERR_MEMLOCK with limit, need and fix (and how
 * many bytes this process holds registered already). `what` names the memory in the message, such as "staging memory". */
int zc_mr_register(const struct zc_device *device, void *address, size_t length_bytes, int access, const char *what,
                   struct ibv_mr **mr, struct zc_error *err);
/* Would the device register memory with this access? Registers a page to find out. 0 or a negative errno. */
int zc_mr_probe(const struct zc_device *device, int access);
/* ibv_dereg_mr(3) with counting. NULL is allowed. 0, or a negative errno: the memory is still registered and counted. */
int zc_mr_deregister(struct ibv_mr *mr);

#endif
