/* A version string, which a target may choose. */
#include "fuzz.h"
#include "jemalloc/instance.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct version version;

    expect(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    version = version_parse(text);
    expect(version.number < 1000000 && version.commits < 1000000);
    expect(version.number != 0 || version.commits == 0 || strncmp(text, "0", 1) == 0);
    expect(version_within(version, version.number, version.number) == (version.number != 0));
    free(text);
    return 0;
}
