/* ELF notes: the build-id is inside them. */
#include "elf/image.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *exact = malloc(size); /* so that a read beyond the end is noticed */
    struct build_id id;

    expect(exact || !size);
    if (size)
        memcpy(exact, data, size);
    if (notes_build_id(exact, size, &id))
        expect(id.len > 0 && id.len <= BUILD_ID_MAX && memmem(exact, size, id.bytes, id.len));
    free(exact);
    return 0;
}
