/* Shared by the fuzz targets: a broken promise ends the program, so that the input is kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void expect(bool promise)
{
    if (!promise)
        abort();
}
