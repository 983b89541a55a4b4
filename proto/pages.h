/* Kinds of pages that memory can be asked for in. */
#ifndef ZC_PAGES_H
#define ZC_PAGES_H

enum zc_pages { ZC_PAGES_DEFAULT, ZC_PAGES_THP, ZC_PAGES_2M, ZC_PAGES_1G };

#endif
