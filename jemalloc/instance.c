#include "jemalloc/instance.h"
#include "base/cursor.h"
#include "base/interruptions.h"
#include "elf/function_names.h"
#include "elf/scope.h"
#include "jemalloc/faults.h"
#include "jemalloc/stripped/stripped.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char suffix[] = "mallctl", sibling[] = "malloc_stats_print";

/* Prefixes in use: none, the default on other systems, the Rust crate, DuckDB, Apache Arrow. */
static const char *const known_prefixes[] = {"", "je_", "_rjem_", "duckdb_je_", "je_arrow_"};

/* A hostile target may map sparse files of any size: the search ends after some seconds. */
static const uint64_t tables_search_max = 8ull << 30;

enum {
    SEARCH_MAX = 10, /* seconds; a target may map any number of files, each of any size */
    LIBRARY_CODE_MAX = 2 << 20, /* bytes; a library with more code contains more than jemalloc */
    PART_LIMIT = 100,           /* of a version */
    COMMITS_LIMIT = 1000000,
};

/* Takes decimal digits that make less than limit. */
static bool take_version_part(struct cursor *text, unsigned limit, unsigned *number)
{
    uint64_t value;

    if (!cursor_take_decimal(text, &value) || value >= limit)
        return false;
    *number = (unsigned)value;
    return true;
}

struct version version_parse(const char *text)
{
    struct cursor rest = cursor_of(text ? text : "", text ? strlen(text) : 0);
    struct version version = {0};
    unsigned major, minor, bugfix;

    if (!take_version_part(&rest, PART_LIMIT, &major) || !cursor_take_char(&rest, '.') ||
        !take_version_part(&rest, PART_LIMIT, &minor) || !cursor_take_char(&rest, '.') ||
        !take_version_part(&rest, PART_LIMIT, &bugfix))
        return version;
    version.number = VERSION_NUMBER(major, minor, bugfix);
    if (!cursor_take_char(&rest, '-') || !take_version_part(&rest, COMMITS_LIMIT, &version.commits))
        version.commits = 0;
    return version;
}

bool version_within(struct version version, unsigned first, unsigned last)
{
    return version.number != 0 && version.number >= first && (last == 0 || version.number <= last);
}

bool version_since(struct version version, unsigned number, unsigned commits)
{
    return version.number > number || (version.number == number && version.commits >= commits);
}

bool prefix_valid(const char *prefix, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)prefix[i]) && prefix[i] != '_' && prefix[i] != '$' &&
            prefix[i] != '.')
            return false;
    return len < PREFIX_MAX;
}

static void instance_fill(struct instance *instance, const struct module *module,
                          const struct image *image, const char *prefix, size_t prefix_len,
                          enum found_by found_by)
{
    const char *name = module_name(module);

    memset(instance, 0, sizeof *instance);
    instance->module = *module;
    instance->bias = image->bias;
    memcpy(instance->prefix, prefix, prefix_len);
    instance->found_by = found_by;
    if (image_has_interpreter(image) || image->header.e_type == ET_EXEC)
        instance->in_program = strncmp(name, "libjemalloc", 11) != 0;
    else /* a static program has no interpreter */
        instance->in_program =
            module->exec_end - module->exec_start > LIBRARY_CODE_MAX || !strstr(name, ".so");
}

static bool try_prefix(struct instance *instance, const struct module *module,
                       const struct image *image, const char *prefix, size_t prefix_len)
{
    char name[PREFIX_MAX + sizeof sibling];
    struct symbol mallctl, stats;

    if (!prefix_valid(prefix, prefix_len))
        return false;
    snprintf(name, sizeof name, "%.*s%s", (int)prefix_len, prefix, suffix);
    if (!image_symbol(image, name, &mallctl) || mallctl.type != STT_FUNC ||
        !module_has_code(module, mallctl.address))
        return false;
    snprintf(name, sizeof name, "%.*s%s", (int)prefix_len, prefix, sibling);
    if (!image_symbol(image, name, &stats) || !module_has_code(module, stats.address))
        return false;
    instance_fill(instance, module, image, prefix, prefix_len, FOUND_DYNSYM);
    instance->mallctl = mallctl.address;
    instance->stats_print = stats.address;
    return true;
}

static bool instances_add(struct instances *instances, const struct instance *instance)
{
    struct instance *slot;

    for (size_t i = 0; i < instances->count; i++)
        if (instances->list[i].mallctl == instance->mallctl) /* another name of the same one */
            return true;
    if (!instances->list)
        instances->list = calloc(INSTANCES_MAX, sizeof *instances->list);
    if (!instances->list || instances->count == INSTANCES_MAX)
        return false;
    slot = &instances->list[instances->count++];
    *slot = *instance;
    snprintf(slot->path, sizeof slot->path, "%s", instance->module.path);
    return true;
}

/* One search for all instances, or for the default. */
struct instance_search {
    const struct modules *modules;
    const struct target *target;
    struct memory *memory;
    struct instances *out;
    bool all;
    uint64_t until;               /* CLOCK_MONOTONIC ns: no more modules are searched after it */
    uint64_t searched;            /* bytes of modules that were searched for tables */
    size_t native;                /* modules that could be read */
    const char *why;              /* why a jemalloc that was found cannot be used; NULL: none was */
    const struct module *refused; /* the module that contains it */
};

static uint64_t search_end(void)
{
    return clock_now() + SEARCH_MAX * 1000000000ull;
}

/* Searches for names that end in "mallctl", with any prefix. */
struct suffix_search {
    struct instances *out;
    const struct module *module;
    const struct image *image;
};

static bool visit_dynamic(void *ctx, const char *name, const struct symbol *symbol)
{
    struct suffix_search *search = ctx;
    struct instance instance;

    (void)symbol;
    return !try_prefix(&instance, search->module, search->image, name,
                       strlen(name) - (sizeof suffix - 1)) ||
           instances_add(search->out, &instance);
}

/* The symbols of .symtab come in any order: both are remembered until their prefixes match. */
struct symtab_search {
    const struct module *module;
    struct {
        char prefix[PREFIX_MAX];
        remote_addr mallctl, stats;
    } seen[16];
    size_t count;
};

static bool visit_symtab(void *ctx, const char *name, const struct symbol *symbol)
{
    struct symtab_search *search = ctx;
    size_t n = strlen(name), cut = 0, i;

    if (n >= sizeof suffix - 1 && strcmp(name + n - (sizeof suffix - 1), suffix) == 0)
        cut = sizeof suffix - 1;
    else if (n >= sizeof sibling - 1 && strcmp(name + n - (sizeof sibling - 1), sibling) == 0)
        cut = sizeof sibling - 1;
    if (!cut || !prefix_valid(name, n - cut) || !module_has_code(search->module, symbol->address))
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
    return true;
}

static void find_in_file(struct instance_search *lookup, const struct module *module,
                         const struct image *image)
{
    static const struct name_pattern patterns[] = {NAME_ENDS_WITH(suffix), NAME_ENDS_WITH(sibling)};
    static const struct name_query both = {.patterns = patterns, .count = ARRAY_LEN(patterns)};
    static const enum found_by found_at[SYMBOLS_PLACES] = {
        [SYMBOLS_DYNSYM] = FOUND_DYNSYM,
        [SYMBOLS_SYMTAB] = FOUND_SYMTAB,
        [SYMBOLS_MINIDEBUG] = FOUND_MINIDEBUG,
        [SYMBOLS_DEBUGFILE] = FOUND_DEBUGFILE,
    };
    struct symtab_search search = {.module = module};
    struct function_names names;
    enum symbol_place place;

    if (function_names_open(&names, module, lookup->target, lookup->memory))
        function_names_visit_file(&names, &both, visit_symtab, &search, &place);
    function_names_close(&names);
    for (size_t i = 0; i < search.count; i++) {
        const char *prefix = search.seen[i].prefix;
        struct instance instance;
        if (!search.seen[i].mallctl || !search.seen[i].stats)
            continue;
        instance_fill(&instance, module, image, prefix, strlen(prefix), found_at[place]);
        instance.mallctl = search.seen[i].mallctl;
        instance.stats_print = search.seen[i].stats;
        instances_add(lookup->out, &instance);
    }
}

/* What the symbols say about functions that were found without names. */
struct clone_check {
    struct instance *instance;
    bool is_clone; /* mallctl */
};

/*
 * LTO may leave only a copy of a function for the arguments of one call
 * (malloc_stats_print.constprop.0): it takes others than those of its interface.
 */
static bool visit_clone(void *ctx, const char *name, const struct symbol *symbol)
{
    struct clone_check *check = ctx;
    struct instance *instance = check->instance;

    if (!strstr(name, ".constprop") && !strstr(name, ".isra") && !strstr(name, ".part"))
        return true;
    check->is_clone |= symbol->address == instance->mallctl;
    if (symbol->address == instance->stats_print)
        instance->stats_print = 0;
    return true;
}

/* Returns why the instance cannot be used; NULL: it can, as far as its symbols tell. */
static const char *refuse_clones(struct instance *instance, const struct instance_search *lookup)
{
    struct clone_check check = {instance, false};
    struct function_names names;
    enum symbol_place place;

    if (function_names_open(&names, &instance->module, lookup->target, lookup->memory))
        function_names_visit_file(&names, NULL, visit_clone, &check, &place);
    function_names_close(&names);
    return check.is_clone ? "its mallctl is a copy that LTO has made for one call" : NULL;
}

static void find_by_tables(struct instance_search *lookup, const struct module *module,
                           const struct image *image)
{
    struct instance instance;
    const char *why = NULL;

    for (size_t i = 0; i < lookup->out->count; i++)
        if (lookup->out->list[i].module.start == module->start)
            return;
    if (module->end - module->start > tables_search_max - lookup->searched)
        return;
    lookup->searched += module->end - module->start;
    for (size_t nth = 0; nth < INSTANCES_MAX; nth++) {
        instance_fill(&instance, module, image, "", 0, FOUND_TABLES);
        if (!stripped_find(&instance, module, lookup->target, lookup->memory, nth, &why) && !why)
            return;
        if (!why)
            why = refuse_clones(&instance, lookup);
        if (why) {
            lookup->why = why;
            lookup->refused = module;
        } else {
            instances_add(lookup->out, &instance);
        }
    }
}

enum pass { PASS_KNOWN, PASS_SUFFIX, PASS_FILE, PASS_TABLES, PASS_COUNT };

static void find_in_module(struct instance_search *lookup, enum pass pass,
                           const struct module *module, const struct image *image)
{
    struct suffix_search search = {lookup->out, module, image};
    struct instance instance;

    switch (pass) {
    case PASS_KNOWN:
        for (size_t i = 0; i < ARRAY_LEN(known_prefixes); i++)
            if (try_prefix(&instance, module, image, known_prefixes[i], strlen(known_prefixes[i])))
                instances_add(lookup->out, &instance);
        break;
    case PASS_SUFFIX:
        image_symbols_ending(image, suffix, visit_dynamic, &search);
        break;
    case PASS_FILE:
        find_in_file(lookup, module, image);
        break;
    default:
        find_by_tables(lookup, module, image);
        break;
    }
}

static bool has_libc(const struct image *image)
{
    struct symbol symbol;

    return image_symbol(image, "__libc_start_main", &symbol);
}

/* Makes the passes over one module, until one finds something. */
static void search_module(struct instance_search *lookup, const struct module *module,
                          const struct image *image)
{
    for (enum pass pass = PASS_KNOWN; pass < PASS_COUNT && !lookup->out->count; pass++)
        find_in_module(lookup, pass, module, image);
}

/* Makes one pass over all modules. */
static void run_pass(struct instance_search *lookup, enum pass pass)
{
    const sig_atomic_t begun = interruptions();

    lookup->native = 0;
    for (size_t i = 0; i < lookup->modules->count && clock_now() < lookup->until; i++) {
        const struct module *module = &lookup->modules->list[i];
        struct image image;
        if (interruptions_ended(begun))
            break;
        if (module->inode == 0 || module->exec_start == module->exec_end ||
            !image_open(&image, lookup->memory, module->start))
            continue;
        lookup->native++;
        find_in_module(lookup, pass, module, &image);
    }
}

static int compare_instances(const void *a, const void *b)
{
    const struct instance *x = a, *y = b;
    return (x->mallctl > y->mallctl) - (x->mallctl < y->mallctl);
}

/* Ranks an instance as the default; among equal ranks the first is chosen. */
static unsigned rank_instance(const struct instance *instance, const struct module *serving)
{
    return (serving && instance->module.start == serving->start ? 4u : 0u) +
           (instance->prefix[0] ? 0u : 2u) + (instance->in_program ? 1u : 0u);
}

/* No module could be read as a 64-bit ELF file: no permission, or a 32-bit program. */
static fault_code explain_unreadable(const struct modules *modules, const struct target *target,
                                     struct memory *memory, struct fault *fault)
{
    unsigned char ident[EI_NIDENT];

    for (size_t i = 0; i < modules->count; i++) {
        if (modules->list[i].inode == 0)
            continue;
        if (!memory_read(memory, modules->list[i].start, ident, sizeof ident)) {
            const int err = errno;
            fault_code code = FAULT_DENIED;
            if (err == ESRCH)
                code = FAULT_GONE;
            else if (err == EFAULT) /* it existed a moment ago: an exec has replaced it */
                code = FAULT_EXECED;
            fault_set(fault, code, err, "read memory", "%d", target->pid);
            if (code == FAULT_DENIED)
                fault_set_reason(fault, DENIED_MEMORY);
            return code;
        }
        if (memcmp(ident, ELFMAG, SELFMAG) == 0 && ident[EI_CLASS] == ELFCLASS32)
            return fault_set(fault, FAULT_FOREIGN_ABI, 0, "look for jemalloc", "%s",
                             modules->list[i].path);
    }
    return fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu modules",
                     modules->count);
}

/* Tells whether another malloc could be preloaded. */
static enum no_allocator_reason judge_malloc(const struct instance_search *lookup,
                                             const struct module *serving)
{
    for (size_t i = 0; i < lookup->modules->count; i++) {
        const struct module *module = &lookup->modules->list[i];
        struct image image;
        if (module->inode == 0 || !image_open(&image, lookup->memory, module->start))
            continue;
        if (image_is_static_program(&image))
            return NO_ALLOCATOR_STATIC;
        if (module == serving && image_has_interpreter(&image) && !has_libc(&image))
            return NO_ALLOCATOR_OWN;
    }
    return NO_ALLOCATOR_OTHER;
}

static fault_code look_everywhere(struct instance_search *lookup, struct fault *fault)
{
    const struct module *serving = scope_find(lookup->modules, lookup->memory, "malloc");
    struct instances *out = lookup->out;
    struct image image;

    /* Usually glibc serves malloc, which is not jemalloc. */
    if (serving && !lookup->all && image_open(&image, lookup->memory, serving->start) &&
        !has_libc(&image))
        search_module(lookup, serving, &image);
    for (enum pass pass = PASS_KNOWN; pass < PASS_COUNT; pass++)
        if (lookup->all || !out->count)
            run_pass(lookup, pass);

    /* Sorts them, so that their numbers are the same in each run, and chooses the default. */
    if (out->count) {
        qsort(out->list, out->count, sizeof *out->list, compare_instances);
        out->chosen = 0;
        for (size_t i = 0; i < out->count; i++) {
            out->list[i].module.path = out->list[i].path;
            if (rank_instance(&out->list[i], serving) >
                rank_instance(&out->list[out->chosen], serving))
                out->chosen = i;
        }
        return FAULT_NONE;
    }

    if (lookup->native == 0)
        return explain_unreadable(lookup->modules, lookup->target, lookup->memory, fault);
    if (lookup->why)
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "look for jemalloc",
                         "%s contains a jemalloc without symbols, and %s", lookup->refused->path,
                         lookup->why);
    fault_set(fault, FAULT_NO_ALLOCATOR, 0, "look for jemalloc", "%zu modules%s", lookup->native,
              clock_now() < lookup->until ? "" : " that could be searched in time");
    fault_set_reason(fault, (int)judge_malloc(lookup, serving));
    return FAULT_NO_ALLOCATOR;
}

fault_code instances_find(struct instances *instances, const struct modules *modules,
                          const struct target *target, struct memory *memory, struct fault *fault)
{
    struct instance_search lookup = {.modules = modules,
                                     .target = target,
                                     .memory = memory,
                                     .out = instances,
                                     .all = true,
                                     .until = search_end()};
    fault_code rc;

    memset(instances, 0, sizeof *instances);
    rc = look_everywhere(&lookup, fault);
    if (rc != FAULT_NONE)
        instances_free(instances);
    return rc;
}

void instances_free(struct instances *instances)
{
    free(instances->list);
    memset(instances, 0, sizeof *instances);
}

/* Copies an instance, with the path of its module. */
static void instance_copy(struct instance *out, const struct instance *instance)
{
    *out = *instance;
    out->module.path = out->path;
}

fault_code instance_find(struct instance *instance, const struct modules *modules,
                         const struct target *target, struct memory *memory, struct fault *fault)
{
    struct instances instances = {NULL, 0, 0};
    struct instance_search lookup = {.modules = modules,
                                     .target = target,
                                     .memory = memory,
                                     .out = &instances,
                                     .until = search_end()};
    fault_code rc = look_everywhere(&lookup, fault);

    if (rc == FAULT_NONE)
        instance_copy(instance, &instances.list[instances.chosen]);
    instances_free(&instances);
    return rc;
}

bool instance_in_module(struct instance *instance, const struct module *module,
                        const struct target *target, struct memory *memory)
{
    struct instances instances = {NULL, 0, 0};
    struct instance_search lookup = {
        .target = target, .memory = memory, .out = &instances, .until = search_end()};
    struct image image;

    if (!image_open(&image, memory, module->start))
        return false;
    search_module(&lookup, module, &image);
    bool found = instances.count > 0;
    if (found)
        instance_copy(instance, &instances.list[0]);
    instances_free(&instances);
    return found;
}
