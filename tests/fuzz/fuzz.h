/* What the fuzz targets share. Each is a libFuzzer program: https://llvm.org/docs/LibFuzzer.html */
#ifndef ZC_FUZZ_H
#define ZC_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What must hold whatever comes in. An abort is what libFuzzer reports as a fault. */
#define HOLDS(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: does not hold: %s (%m)\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

#endif
