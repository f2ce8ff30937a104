/* ELF objects in the test's own memory, compared with the loader's answers. */
#include "check.h"
#include "own.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

static struct own own;

static remote_addr address_of(const char *name)
{
    return (remote_addr)(uintptr_t)dlsym(RTLD_DEFAULT, name);
}

/* The C library: the module of a function that nothing else defines. */
static bool open_libc(struct image *image, const struct module **module)
{
    *module = modules_at(&own.modules, address_of("gnu_get_libc_version"));
    return *module && image_open(image, &own.memory, (*module)->start);
}

static void test_symbols(void)
{
    static const char *const names[] = {
        "getpid",  "getppid", "syscall",   "gnu_get_libc_version",
        "bsearch", "labs",    "getgroups", "sched_yield",
        "umask",   "chroot",  "abort",     "__errno_location",
        "lfind",   "hsearch", "argz_next", "mcheck_check_all",
    };
    const struct module *libc;
    struct image image;

    if (!CHECK(open_libc(&image, &libc)))
        return;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct symbol symbol;
        if (modules_at(&own.modules, address_of(names[i])) != libc)
            continue; /* a sanitizer's own */
        if (!CHECK(image_symbol(&image, names[i], &symbol)))
            continue;
        CHECK(symbol.address == address_of(names[i]));
        CHECK(symbol.type == STT_FUNC && symbol.size > 0);
        CHECK(symbol.address >= libc->exec_start && symbol.address < libc->exec_end);
    }
}

/* A sanitizer puts its own malloc before the C library's. */
static void test_malloc(void)
{
    const struct module *libc;
    struct symbol symbol;
    struct image image;

    if (!CHECK(open_libc(&image, &libc)) || !CHECK(image_symbol(&image, "malloc", &symbol)))
        return;
    CHECK(symbol.type == STT_FUNC && symbol.size > 0);
    CHECK(modules_at(&own.modules, symbol.address) == libc);
    if (modules_at(&own.modules, address_of("malloc")) == libc)
        CHECK(symbol.address == address_of("malloc"));
}

static void test_absent(void)
{
    static const char *const names[] = {
        "",        "malloc_", "mallo",   "xmalloc", "mallctl", "no such name",
        "getpid ", "GETPID",  "_getpid", "\xff",    "getpi",   "getpidd",
    };
    const struct module *libc;
    struct symbol symbol;
    struct image image;
    char name[300];

    if (!CHECK(open_libc(&image, &libc)))
        return;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        CHECK(!image_symbol(&image, names[i], &symbol));
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "absent_%u", i * 2654435761u);
        CHECK(!image_symbol(&image, name, &symbol));
    }
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(!image_symbol(&image, name, &symbol));
}

struct visit {
    const struct image *image;
    const char *suffix;
    size_t count, limit;
    bool good;
};

static bool visit_one(void *ctx, const char *name, const struct symbol *symbol)
{
    struct visit *visit = ctx;
    struct symbol again;
    size_t n = strlen(name), m = strlen(visit->suffix);

    visit->count++;
    visit->good &= n >= m && strcmp(name + n - m, visit->suffix) == 0;
    visit->good &= symbol->address >= visit->image->base;
    /* Names longer than any requested one are not looked up. */
    visit->good &= n >= 256 || image_symbol(visit->image, name, &again);
    return visit->count < visit->limit;
}

static size_t count_ending(const struct image *image, const char *suffix, size_t limit)
{
    struct visit visit = {image, suffix, 0, limit, true};

    image_symbols_ending(image, suffix, visit_one, &visit);
    CHECK(visit.good);
    return visit.count;
}

static void test_ending(void)
{
    const struct module *libc;
    struct image image;

    if (!CHECK(open_libc(&image, &libc)))
        return;
    CHECK(count_ending(&image, "gnu_get_libc_version", SIZE_MAX) == 1);
    CHECK(count_ending(&image, "alloc", SIZE_MAX) >= 3); /* malloc, calloc, realloc */
    CHECK(count_ending(&image, "alloc", 2) == 2);
    CHECK(count_ending(&image, "no such end", SIZE_MAX) == 0);
    CHECK(count_ending(&image, "", SIZE_MAX) > 1500);
}

/* The last symbol of the table counts too: the hash tables have their number. */
static void test_every_module(void)
{
    for (size_t i = 0; i < own.modules.count; i++) {
        struct image image;
        if (own.modules.list[i].exec_start == own.modules.list[i].exec_end)
            continue;
        if (CHECK(image_open(&image, &own.memory, own.modules.list[i].start)))
            count_ending(&image, "", SIZE_MAX);
    }
}

static int check_loaded(struct dl_phdr_info *info, size_t size, void *ctx)
{
    unsigned *count = ctx;
    const remote_addr phdrs = (remote_addr)(uintptr_t)info->dlpi_phdr;
    const struct module *module = modules_at(&own.modules, phdrs);
    struct image image;

    (void)size;
    if (!CHECK(module != NULL) || !CHECK(image_open(&image, &own.memory, module->start)))
        return 0;
    CHECK(image.bias == info->dlpi_addr);
    CHECK(image.phdr_count == info->dlpi_phnum);
    CHECK(image.base + image.header.e_phoff == phdrs);
    (*count)++;
    return 0;
}

/* Load biases, by the loader itself. */
static void test_biases(void)
{
    unsigned count = 0;

    dl_iterate_phdr(check_loaded, &count);
    CHECK(count >= 3);
}

static void test_build_ids(void)
{
    unsigned compared = 0;

    for (size_t i = 0; i < own.modules.count; i++) {
        const struct module *module = &own.modules.list[i];
        struct build_id mapped, file;
        struct image image;
        if (module->inode == 0 || module->exec_start == module->exec_end)
            continue;
        AUTO_CLOSE int fd = module_open(module, &own.target, &own.memory);
        CHECK(fd >= 0);
        if (!CHECK(image_open(&image, &own.memory, module->start)))
            continue;
        bool known = image_build_id(&image, &mapped);
        CHECK(file_build_id(fd, &file) == known);
        if (!known)
            continue;
        CHECK(mapped.len == file.len && memcmp(mapped.bytes, file.bytes, file.len) == 0);
        compared++;
    }
    CHECK(compared >= 2);
}

static void test_no_elf(void)
{
    static const char text[4096] = "no ELF header";
    struct image image;

    CHECK(!image_open(&image, &own.memory, (remote_addr)(uintptr_t)text));
    CHECK(!image_open(&image, &own.memory, 0));
    CHECK(!image_open(&image, &own.memory, UINT64_MAX - 10));
}

int main(void)
{
    if (!CHECK(own_open(&own)))
        return check_result();
    test_symbols();
    test_malloc();
    test_absent();
    test_ending();
    test_every_module();
    test_biases();
    test_build_ids();
    test_no_elf();
    own_close(&own);
    return check_result();
}
