#include "jemalloc/instance.h"
#include "elf/symbols.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char suffix[] = "mallctl", sibling[] = "malloc_stats_print";

/* Prefixes in use: none, configure's default elsewhere, Rust's crate, DuckDB, Apache Arrow. */
static const char *const known_prefixes[] = {"", "je_", "_rjem_", "duckdb_je_", "je_arrow_"};

enum {
    SEARCH_MAX = 10, /* seconds; a target may map any number of files, each of any size */
    LIBRARY_CODE_MAX = 2 << 20, /* a library with more code than this holds more than jemalloc */
};

static bool in_code(const struct module *module, remote_addr address)
{
    return address >= module->exec_start && address < module->exec_end;
}

static bool has_interpreter(const struct image *image)
{
    for (size_t i = 0; i < image->phdr_count; i++)
        if (image->phdrs[i].p_type == PT_INTERP)
            return true;
    return false;
}

/* A library of its own or part of a program? A static program has no dynamic loader at all. */
static bool is_program(const struct module *module, const struct image *image)
{
    const char *name = module_name(module);

    if (has_interpreter(image) || image->header.e_type == ET_EXEC)
        return strncmp(name, "libjemalloc", 11) != 0;
    return module->exec_end - module->exec_start > LIBRARY_CODE_MAX || !strstr(name, ".so");
}

static void instance_fill(struct instance *instance, const struct module *module,
                          const struct image *image, const char *prefix, size_t prefix_len,
                          enum found_by found_by)
{
    memset(instance, 0, sizeof *instance);
    instance->module = *module;
    instance->bias = image->bias;
    memcpy(instance->prefix, prefix, prefix_len);
    instance->found_by = found_by;
    instance->in_program = is_program(module, image);
}

static bool try_prefix(struct instance *instance, const struct module *module,
                       const struct image *image, const char *prefix, size_t prefix_len)
{
    char name[PREFIX_MAX + sizeof sibling];
    struct symbol mallctl, stats;

    if (prefix_len >= PREFIX_MAX)
        return false;
    snprintf(name, sizeof name, "%.*s%s", (int)prefix_len, prefix, suffix);
    if (!image_symbol(image, name, &mallctl) || mallctl.type != STT_FUNC ||
        !in_code(module, mallctl.address))
        return false;
    snprintf(name, sizeof name, "%.*s%s", (int)prefix_len, prefix, sibling);
    if (!image_symbol(image, name, &stats) || !in_code(module, stats.address))
        return false;
    instance_fill(instance, module, image, prefix, prefix_len, FOUND_DYNSYM);
    instance->mallctl = mallctl.address;
    instance->stats_print = stats.address;
    return true;
}

/* A name that ends in "mallctl", whatever stands before it. */
struct suffix_search {
    struct instance *instance;
    const struct module *module;
    const struct image *image;
    bool found;
};

static bool visit_dynamic(void *ctx, const char *name, const struct symbol *symbol)
{
    struct suffix_search *search = ctx;

    (void)symbol;
    search->found = try_prefix(search->instance, search->module, search->image, name,
                               strlen(name) - (sizeof suffix - 1));
    return !search->found;
}

/* The names of .symtab come in any order: both are remembered until they agree. */
struct symtab_search {
    const struct module *module;
    struct {
        char prefix[PREFIX_MAX];
        remote_addr mallctl, stats;
    } seen[16];
    size_t count;
    size_t complete; /* index + 1 of the first with both */
};

static bool visit_symtab(void *ctx, const char *name, const struct symbol *symbol)
{
    struct symtab_search *search = ctx;
    size_t n = strlen(name), cut = 0, i;

    if (n >= sizeof suffix - 1 && strcmp(name + n - (sizeof suffix - 1), suffix) == 0)
        cut = sizeof suffix - 1;
    else if (n >= sizeof sibling - 1 && strcmp(name + n - (sizeof sibling - 1), sibling) == 0)
        cut = sizeof sibling - 1;
    if (!cut || n - cut >= PREFIX_MAX || !in_code(search->module, symbol->address))
        return true;
    for (i = 0; i < search->count; i++)
        if (strlen(search->seen[i].prefix) == n - cut &&
            memcmp(search->seen[i].prefix, name, n - cut) == 0)
            break;
    if (i == ARRAY_LEN(search->seen))
        return true;
    if (i == search->count) {
        search->count++;
        memcpy(search->seen[i].prefix, name, n - cut);
    }
    if (cut == sizeof suffix - 1)
        search->seen[i].mallctl = symbol->address;
    else
        search->seen[i].stats = symbol->address;
    if (search->seen[i].mallctl && search->seen[i].stats && !search->complete)
        search->complete = i + 1;
    return !search->complete;
}

static enum found_by found_at(enum symbol_place place)
{
    static const enum found_by found[SYMBOLS_PLACES] = {
        [SYMBOLS_DYNSYM] = FOUND_DYNSYM,
        [SYMBOLS_SYMTAB] = FOUND_SYMTAB,
        [SYMBOLS_MINIDEBUG] = FOUND_MINIDEBUG,
        [SYMBOLS_DEBUGFILE] = FOUND_DEBUGFILE,
    };
    return found[place];
}

/* First the one name, which few modules have; the other for those that have it. */
static bool try_file(struct instance *instance, const struct module *module,
                     const struct image *image, const struct target *target, struct memory *memory)
{
    struct symtab_search search = {.module = module};
    enum symbol_place place;
    struct symbols symbols;

    if (symbols_open(&symbols, module, target, memory) &&
        symbols_visit_file(&symbols, suffix, visit_symtab, &search, &place) && search.count)
        symbols_visit_file(&symbols, sibling, visit_symtab, &search, &place);
    symbols_close(&symbols);
    if (!search.complete)
        return false;
    const char *prefix = search.seen[search.complete - 1].prefix;
    instance_fill(instance, module, image, prefix, strlen(prefix), found_at(place));
    instance->mallctl = search.seen[search.complete - 1].mallctl;
    instance->stats_print = search.seen[search.complete - 1].stats;
    return true;
}

enum pass { PASS_KNOWN, PASS_SUFFIX, PASS_FILE, PASS_COUNT };

static bool try_module(struct instance *instance, enum pass pass, const struct module *module,
                       const struct image *image, const struct target *target,
                       struct memory *memory)
{
    struct suffix_search search = {instance, module, image, false};

    switch (pass) {
    case PASS_KNOWN:
        for (size_t i = 0; i < ARRAY_LEN(known_prefixes); i++)
            if (try_prefix(instance, module, image, known_prefixes[i], strlen(known_prefixes[i])))
                return true;
        return false;
    case PASS_SUFFIX:
        image_symbols_ending(image, suffix, visit_dynamic, &search);
        return search.found;
    default:
        return try_file(instance, module, image, target, memory);
    }
}

/* One pass over all modules, until then at most; *native counts those that could be read. */
static bool run_pass(struct instance *instance, enum pass pass, const struct modules *modules,
                     const struct target *target, struct memory *memory, uint64_t until,
                     size_t *native)
{
    bool found = false;

    for (size_t i = 0; i < modules->count && clock_now() < until; i++) {
        const struct module *module = &modules->list[i];
        struct instance candidate;
        struct image image;
        if (module->inode == 0 || module->exec_start == module->exec_end ||
            !image_open(&image, memory, module->start))
            continue;
        (*native)++;
        if (!try_module(&candidate, pass, module, &image, target, memory))
            continue;
        if (!found || (!candidate.prefix[0] && instance->prefix[0]))
            *instance = candidate;
        found = true;
    }
    return found;
}

/* What was mapped a moment ago and is no longer there has been replaced by exec. */
static enum fault_code read_fault(int err)
{
    if (err == ESRCH)
        return FAULT_GONE;
    return err == EFAULT ? FAULT_EXECED : FAULT_DENIED;
}

/* Nothing at all could be read as a 64-bit ELF: is it for want of permission, or a 32-bit one? */
static enum fault_code explain_unreadable(const struct modules *modules,
                                          const struct target *target, struct memory *memory,
                                          struct fault *fault)
{
    unsigned char ident[EI_NIDENT];

    for (size_t i = 0; i < modules->count; i++) {
        if (modules->list[i].inode == 0)
            continue;
        if (!memory_read(memory, modules->list[i].start, ident, sizeof ident))
            return fault_set(fault, read_fault(errno), errno, "read memory", "%d", target->pid);
        if (memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32)
            return fault_set(fault, FAULT_FOREIGN_ABI, 0, "look for jemalloc", "%s",
                             modules->list[i].path);
    }
    return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu modules",
                     modules->count);
}

enum fault_code instance_find(struct instance *instance, const struct modules *modules,
                              const struct target *target, struct memory *memory,
                              struct fault *fault)
{
    const uint64_t until = clock_now() + SEARCH_MAX * 1000000000ull;
    size_t native = 0;

    for (enum pass pass = PASS_KNOWN; pass < PASS_COUNT; pass++) {
        if (!run_pass(instance, pass, modules, target, memory, until, &native))
            continue;
        snprintf(instance->path, sizeof instance->path, "%s", instance->module.path);
        instance->module.path = instance->path;
        return FAULT_NONE;
    }
    if (native == 0)
        return explain_unreadable(modules, target, memory, fault);
    return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu modules%s",
                     native / PASS_COUNT,
                     clock_now() < until ? "" : " that could be searched in time");
}
