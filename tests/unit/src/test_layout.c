/* Where the pieces of a request lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "layout.h"

enum { PAGE = 4096, BUFFERS = 3, PIECES_MAX = 64 };

/* All pieces of all buffers: in order, apart, inside, and together the request. */
static void check(uint64_t size, uint64_t pieces, uint64_t align, uint64_t fresh)
{
    struct zc_layout layout;
    struct zc_piece list[PIECES_MAX];
    struct zc_request request = {.length_bytes = 0};
    zc_layout_make(size, pieces, align, fresh, &layout);
    assert_int_equal(layout.pieces, pieces);
    uint8_t *const memory = aligned_alloc(PAGE, (BUFFERS * layout.stride_bytes + PAGE - 1) / PAGE * PAGE);
    const uint8_t *end = memory;
    for (uint64_t buffer = 0; buffer < BUFFERS; buffer++) {
        uint64_t sum = 0;
        zc_layout_apply(&layout, memory + buffer * layout.stride_bytes, list, &request);
        for (uint32_t i = 0; i < pieces; i++) {
            const struct zc_piece piece = zc_layout_piece(&layout, &request, i);
            const uintptr_t at = (uintptr_t)piece.address;
            assert_true(piece.length_bytes > 0 && piece.address >= end);
            assert_true(i == 0 || piece.address > end);         /* a gap */
            if (align > 0)
                assert_true(at % align == 0 && (align == PAGE || at % (2 * align) != 0));
            end = piece.address + piece.length_bytes;
            sum += piece.length_bytes;
        }
        assert_int_equal(sum, size);
        assert_true(end <= memory + (buffer + 1) * layout.stride_bytes);
        end = memory + (buffer + 1) * layout.stride_bytes;
    }
    assert_true(fresh == 0 || layout.stride_bytes % fresh == 0);
    free(memory);
}

static void test_layouts(void **state)
{
    static const uint64_t sizes[] = {64, 100, 4095, 4096, 65537, 1 << 20}, pieces[] = {1, 2, 7, PIECES_MAX};
    static const uint64_t aligns[] = {0, 1, 2, 64, 2048, 4096};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++)
            for (size_t a = 0; a < sizeof aligns / sizeof aligns[0]; a++)
                for (uint64_t fresh = 0; fresh <= PAGE; fresh += PAGE)
                    check(sizes[s], pieces[p], aligns[a], fresh);
}

/* One piece as it comes is packed as closely as ever. */
static void test_one_piece(void **state)
{
    struct zc_layout layout;
    (void)state;
    zc_layout_make(100, 1, 0, 0, &layout);
    assert_int_equal(layout.stride_bytes, 128);
    zc_layout_make(4097, 1, 0, 0, &layout);
    assert_int_equal(layout.stride_bytes, 8192);
    zc_layout_make(100, 1, 4096, 0, &layout);
    assert_int_equal(layout.stride_bytes, 4096);
    zc_layout_make(4096, 1, 1, 0, &layout);
    assert_int_equal(layout.stride_bytes, 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
