/* The constants of a file: a string taken for jemalloc's version is one, and is among them. */
#include "fuzz.h"
#include "jemalloc/facts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    char found[64] = "", again[64] = "";
    int rc = facts_version(bytes, size, found, sizeof found);

    expect(rc >= -1 && rc <= 1 && memchr(found, '\0', sizeof found));
    expect(rc != 0 || !found[0]);
    if (found[0]) {
        expect(memmem(bytes, size, found, strlen(found) + 1) != NULL);
        expect(strspn(found, "0123456789.-") >= 8 && strstr(found, "-g"));
    }
    expect(facts_version(bytes, size, again, sizeof again) == rc && strcmp(found, again) == 0);
    return 0;
}
