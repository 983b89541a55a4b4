/* The counting allocator: it counts this thread's calls, those of shared libraries included, and stays glibc's allocator. It is part
 * of the program and not of the library, so its source is compiled in here. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "alloc_count.c"

static uint64_t now(void)
{
    return alloc_count_thread();
}

static void test_counts(void **state)
{
    (void)state;
    if (!alloc_count_thread)
        skip();
    void *volatile memory;
    uint64_t before = now();
    memory = malloc(10);
    assert_int_equal(now() - before, 1);
    memory = realloc(memory, 100000);
    assert_int_equal(now() - before, 2);
    free(memory);
    assert_int_equal(now() - before, 2);
    memory = calloc(1, 10);
    free(memory);
    memory = aligned_alloc(64, 128);
    assert_int_equal((uintptr_t)memory % 64, 0);
    free(memory);
    assert_int_equal(posix_memalign((void **)&memory, 4096, 10), 0);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    assert_true(malloc_usable_size(memory) >= 10);
    free(memory);
    assert_int_equal(now() - before, 5);
    assert_int_equal(posix_memalign((void **)&memory, 3, 10), EINVAL);
    memory = strdup("inside the C library");
    free(memory);
    assert_int_equal(now() - before, 6);
}

static void *elsewhere(void *arg)
{
    free(malloc(10));
    *(uint64_t *)arg = now();
    return NULL;
}

static void test_threads_apart(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t theirs = 0;
    if (!alloc_count_thread)
        skip();
    free(malloc(10));
    assert_int_equal(pthread_create(&thread, NULL, elsewhere, &theirs), 0);
    pthread_join(thread, NULL);
    assert_true(theirs >= 1);
    assert_true(now() > 0);
    uint64_t before = now();
    pthread_create(&thread, NULL, elsewhere, &theirs);
    uint64_t created = now() - before;
    pthread_join(thread, NULL);
    assert_true(now() - before <= created + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts), cmocka_unit_test(test_threads_apart) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
