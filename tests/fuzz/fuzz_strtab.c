/* A string table: the offsets that a search finds are those whose names contain the part. */
#include "elf/strtab.h"
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>

/* The first bytes choose the part. */
static void compare(struct strtab *strtab, const char *part)
{
    struct strtab_spans spans;

    if (strtab_find(strtab, part, &spans))
        for (uint64_t at = 0; at < strtab->size; at++) {
            const char *name = strtab_name(strtab, at);
            expect(name != NULL);
            expect((strstr(name, part) != NULL) == strtab_spans_hold(&spans, at));
        }
    free(spans.list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char part[4] = {0};

    if (size < sizeof part)
        return -1;
    memcpy(part, data, data[3] % sizeof part);
    AUTO_CLOSE int fd = memfd_create("strtab", MFD_CLOEXEC);
    expect(pwrite(fd, data, size, 0) == (ssize_t)size);
    struct sections sections = {.fd = fd, .file_size = size};
    Elf64_Shdr section = {.sh_type = SHT_STRTAB, .sh_size = size};
    struct strtab strtab;
    if (strtab_open(&strtab, &sections, &section, STRTAB_BLOCK))
        compare(&strtab, part);
    strtab_close(&strtab);
    return 0;
}
