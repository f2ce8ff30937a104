/* A linker's name of C++ or Rust. */
#include "fuzz.h"
#include "profile/symbols/demangle.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {.chunks = NULL};
    char *name = strndup((const char *)data, size);
    const char *text;

    expect(name != NULL);
    text = demangle(&arena, name);
    expect(text && strlen(text) <= (text == name ? size : DEMANGLE_OUTPUT_MAX));
    arena_free(&arena);
    free(name);
    return 0;
}
