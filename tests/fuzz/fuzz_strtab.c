/* A string table: the offsets found by a search are those of the names in it. */
#include "elf/sections.h"
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>

static void compare(struct strtab *strtab, const struct name_query *query)
{
    struct strtab_spans spans;

    if (strtab_find(strtab, query, &spans))
        for (uint64_t at = 0; at < strtab->size; at++) {
            const char *name = strtab_name(strtab, at);
            expect(name != NULL);
            expect(name_matches(query, name, strlen(name)) == strtab_spans_hold(&spans, at));
        }
    free(spans.list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char part[4] = {0};
    struct name_pattern patterns[] = {{NAME_WHOLE, part, 1}, NAME_ENDS_WITH("t")};

    if (size < sizeof part)
        return -1;
    memcpy(part, data, data[3] % sizeof part); /* the first bytes choose the name to find */
    patterns[0].kind = (enum name_kind)(data[3] >> 2) % 3;
    patterns[0].len = strlen(part);
    const struct name_query query = {.patterns = patterns + (part[0] == 0),
                                     .count = part[0] ? 1 + (data[3] >> 4 & 1) : 1};
    AUTO_CLOSE int fd = memfd_create("strtab", MFD_CLOEXEC);
    expect(pwrite(fd, data, size, 0) == (ssize_t)size);
    struct sections sections = {.fd = fd, .file_size = size};
    Elf64_Shdr section = {.sh_type = SHT_STRTAB, .sh_size = size};
    struct strtab strtab;
    if (strtab_open(&strtab, &sections, &section, STRTAB_BLOCK))
        compare(&strtab, &query);
    strtab_close(&strtab);
    return 0;
}
