/* .symtab and the build-id of a file. */
#include "elf/sections.h"
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>

struct visit {
    size_t count;
    const struct name_query *query;
};

static bool visit_one(void *ctx, const char *name, const struct symbol *symbol)
{
    struct visit *visit = ctx;

    expect(!visit->query || name_matches(visit->query, name, strlen(name)));
    expect(symbol->type == STT_FUNC);
    expect(!symbol->file || (symbol->local && strlen(symbol->file) < SIZE_MAX));
    return ++visit->count < 100000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct name_pattern patterns[] = {NAME_ENDS_WITH("mallctl"), NAME_ENDS_WITH("e"),
                                                   NAME_BEGINS_WITH("je_")};
    static const struct name_query some = {.patterns = patterns, .count = 2};
    static const struct name_query begun = {.patterns = patterns + 2, .count = 1};
    static const struct name_query *const queries[] = {NULL, &some, &begun};
    static int fd = -1;
    struct build_id id;

    if (fd < 0)
        fd = memfd_create("elf", MFD_CLOEXEC);
    expect(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
        struct visit visit = {0, queries[i]};
        bool good = symtab_visit(fd, 0x1000, queries[i], visit_one, &visit);
        expect(good || visit.count == 0);
        expect(visit.count <= size / sizeof(Elf64_Sym));
    }
    if (file_build_id(fd, &id))
        expect(id.len > 0 && id.len <= BUILD_ID_MAX && memmem(data, size, id.bytes, id.len));
    return 0;
}
