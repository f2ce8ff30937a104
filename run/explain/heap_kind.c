#include "run/explain/heap_kind.h"
#include "elf/sections.h"

#include <string.h>

enum { COMMAND_LINE_MOST = 2 << 20 };

/* Each kind by the start of a file name. A program has its name alone, a library a suffix. */
static const struct {
    const char *start;
    enum heap_kind kind;
} files[] = {
    {"libtcmalloc", HEAP_TCMALLOC},
    {"libmimalloc", HEAP_MIMALLOC},
    {"libjvm.so", HEAP_JVM},
    {"libnode.so", HEAP_V8},
    {"node", HEAP_V8},
    {"libv8.so", HEAP_V8},
    {"chrome", HEAP_V8},
    {"libcoreclr.so", HEAP_DOTNET},
    {"libpython", HEAP_PYTHON},
    {"python", HEAP_PYTHON},
    {"libruby", HEAP_RUBY},
    {"ruby", HEAP_RUBY},
    {"php", HEAP_PHP},
    {"libphp", HEAP_PHP},
    {"beam.smp", HEAP_ERLANG},
    {"ld-musl-", HEAP_MUSL},
    {"libc.musl-", HEAP_MUSL},
    {"libc.so.6", HEAP_GLIBC},
    {"libc-2.", HEAP_GLIBC},
};

/* A program's name may go on with its version, a library's with anything. */
static bool names_file(const char *name, const char *start)
{
    size_t len = strlen(start);

    if (strncmp(name, start, len) != 0)
        return false;
    return strncmp(start, "lib", 3) == 0 || strchr(start, '-') ||
           name[len + strspn(name + len, "0123456789.")] == '\0';
}

/* The tables of its run-time system: the linker of Go always writes them. */
static bool is_go(const struct modules *modules, const struct target *target, struct memory *memory)
{
    AUTO_CLOSE int fd = modules->count ? module_open(&modules->list[0], target, memory) : -1;
    struct sections sections;
    Elf64_Shdr found;

    return fd >= 0 && sections_open(&sections, fd) &&
           (section_named(&sections, ".gopclntab", &found) ||
            section_named(&sections, ".data.rel.ro.gopclntab", &found));
}

/* A program may embed another one: the first of these is what it is written for. */
enum heap_kind heap_kinds_language(unsigned kinds)
{
    static const enum heap_kind languages[] = {HEAP_JVM,  HEAP_V8,  HEAP_GO,     HEAP_DOTNET,
                                               HEAP_RUBY, HEAP_PHP, HEAP_ERLANG, HEAP_PYTHON};

    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        if (kinds & 1u << languages[i])
            return languages[i];
    return HEAP_KINDS;
}

enum heap_kind heap_kinds_collector(unsigned kinds)
{
    static const enum heap_kind collectors[] = {HEAP_JVM, HEAP_V8, HEAP_GO, HEAP_DOTNET};

    for (size_t i = 0; i < ARRAY_LEN(collectors); i++)
        if (kinds & 1u << collectors[i])
            return collectors[i];
    return HEAP_KINDS;
}

static bool starts_with_option(const char *word, const char *option)
{
    while (*option && (*word == '_' ? '-' : *word) == *option)
        word++, option++;
    return !*option;
}

bool words_option(const char *words, size_t len, const char *option, const char *chars, char *value,
                  size_t size)
{
    const char *end = words + len;
    bool found = false;

    for (const char *word = words; word < end; word += strlen(word) + 1) {
        if (strcmp(word, "-jar") == 0) /* the words behind it are the program's */
            break;
        if (!starts_with_option(word, option))
            continue;
        const char *rest = word + strlen(option);
        if (!*rest || *rest == '=')
            rest++;
        const size_t letters = rest < end ? strspn(rest, chars) : 0;
        if (!letters || letters >= size || rest[letters])
            continue;
        memcpy(value, rest, letters + 1);
        found = true;
    }
    return found;
}

bool command_option(const struct target *target, const char *option, const char *chars, char *value,
                    size_t size)
{
    AUTO_FREE char *words = NULL;
    ssize_t n = procfs_slurp(target->proc, &words, COMMAND_LINE_MOST, "%d/cmdline",
                             (int)target_via(target));

    return n > 0 && words_option(words, (size_t)n, option, chars, value, size);
}

unsigned heap_kinds_of_modules(const struct modules *modules)
{
    const unsigned libc = 1u << HEAP_GLIBC | 1u << HEAP_MUSL;
    unsigned kinds = 0;

    for (size_t i = 0; i < modules->count; i++)
        for (size_t j = 0; j < ARRAY_LEN(files); j++)
            if (names_file(module_name(&modules->list[i]), files[j].start))
                kinds |= 1u << files[j].kind;
    if (kinds & (1u << HEAP_TCMALLOC | 1u << HEAP_MIMALLOC))
        kinds &= ~libc;
    return kinds;
}

unsigned heap_kinds_find(const struct modules *modules, const struct target *target,
                         struct memory *memory)
{
    return heap_kinds_of_modules(modules) | (is_go(modules, target, memory) ? 1u << HEAP_GO : 0);
}
