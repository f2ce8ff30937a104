/*
 * An ELF object in memory: the input lies at a fixed address in the program's
 * own memory, between pages that cannot be read.
 */
#include "elf/image.h"
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 32 };

static const uintptr_t base = 0x200000000000;

static struct memory memory;

static void prepare(void)
{
    static struct procfs proc;
    static struct target target;
    static struct gate gate;
    void *area = mmap((void *)(base - PAGE), (PAGES + 2) * PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    expect(area == (void *)(base - PAGE));
    expect(mprotect((void *)base, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    expect(procfs_open(&proc, "/proc") == 0);
    target = (struct target){.proc = &proc, .pid = getpid(), .pidfd = -1};
    expect(memory_open(&memory, &target, &gate, NULL) == FAULT_NONE);
}

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

    if (!memory.cache)
        prepare();
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
