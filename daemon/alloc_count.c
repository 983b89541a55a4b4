/* The allocator of this program: glibc's, with a count. "The data path allocates nothing" is a promise about every library on it
 * (verbs providers included), so the calls are counted where all of them arrive: a program's own definition of the malloc family
 * goes before the C library's for every shared object of the process (glibc manual, "Replacing malloc"). What is behind is still
 * glibc's allocator, through the names under which it offers it for that purpose.
 *
 * The counter is thread-local with a fixed offset (initial-exec): the general kind of thread-local variable may itself be allocated
 * at its first use, from here, for ever. free() is passed through and not counted: what it gives back was counted when it came. */
#include "alloc_count.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(SANITIZED) || !defined(__GLIBC__)

uint64_t (*const alloc_count_thread)(void) = NULL;

#else

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
void __libc_free(void *memory);

void *memalign(size_t alignment, size_t size);
void *pvalloc(size_t size);

static __thread uint64_t calls __attribute__((tls_model("initial-exec")));

static uint64_t thread_calls(void)
{
    return calls;
}

uint64_t (*const alloc_count_thread)(void) = thread_calls;

EXPORT void *malloc(size_t size)
{
    calls++;
    return __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    calls++;
    return __libc_calloc(count, size);
}

EXPORT void *realloc(void *memory, size_t size)
{
    calls++;
    return __libc_realloc(memory, size);
}

EXPORT void free(void *memory)
{
    __libc_free(memory);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    calls++;
    return __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    calls++;
    return __libc_memalign(alignment, size);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    calls++;
    int before = errno;         /* posix_memalign(3) leaves it alone */
    void *got = __libc_memalign(alignment, size);
    errno = before;
    if (!got)
        return ENOMEM;
    *memory = got;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    calls++;
    return __libc_valloc(size);
}

EXPORT void *pvalloc(size_t size)
{
    calls++;
    return __libc_pvalloc(size);
}

#endif
