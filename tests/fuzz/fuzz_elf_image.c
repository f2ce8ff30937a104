/*
 * An ELF object in memory: the input is at a fixed address in the program's own memory, between
 * unreadable pages.
 */
#include "elf/image.h"
#include "own_pages.h"

#include <string.h>

struct visit {
    size_t count;
    const char *suffix;
};

static bool visit_one(void *ctx, const char *name, const struct symbol *symbol)
{
    struct visit *visit = ctx;
    size_t n = strlen(name), m = strlen(visit->suffix);

    expect(n >= m && strcmp(name + n - m, visit->suffix) == 0);
    expect(symbol->type == STT_FUNC || symbol->type == STT_NOTYPE);
    return ++visit->count < 100000;
}

static void look(const struct image *image)
{
    static const char *const names[] = {"mallctl", "je_mallctl", "__errno_location", "", "fork"};
    static const char *const suffixes[] = {"mallctl", ""};
    struct build_id id;
    struct symbol symbol;

    expect(image->phdr_count > 0 && image->phdr_count <= IMAGE_PHDRS_MAX);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        image_symbol(image, names[i], &symbol);
    if (image_build_id(image, &id))
        expect(id.len > 0 && id.len <= BUILD_ID_MAX);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        struct visit visit = {0, suffixes[i]};
        image_symbols_ending(image, suffixes[i], visit_one, &visit);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t former;
    struct image image;

    if (!memory.unchanging)
        own_pages_prepare();
    if (size > PAGES * PAGE)
        return -1;
    memcpy((void *)base, data, size);
    if (former > size)
        memset((void *)(base + size), 0, former - size);
    former = size;
    memory_forget(&memory);
    if (image_open(&image, &memory, base))
        look(&image);
    return 0;
}
