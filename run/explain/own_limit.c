#include "run/explain/own_limit.h"
#include "base/text.h"
#include "base/util.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ENVIRON_MOST = 2 << 20, PLACES = 4 };

#define MIB ((uint64_t)1 << 20)

#define SIZE_CHARS "0123456789bBgGiIkKmMtT"
/* No name of a file; and the storage named Transient has no limit. */
#define STORAGE_CHARS "abcdefghijklmnopqrstuvwxyz0123456789,=GKM"
#define COMMAND_LINE  ""

static const struct own_limit_option {
    const char *program;     /* NULL: any program of the language */
    enum heap_kind language; /* without a program */
    enum own_limit_of of;
    const char *option;
    const char *chars;          /* of its value, whose last part is the size; NULL: SIZE_CHARS */
    uint64_t unit;              /* bytes, of a number alone */
    uint64_t usual;             /* without the option; 0: not known */
    bool decimal;               /* "1m" is a million, and "1mb" is not */
    const char *places[PLACES]; /* the first has the last word; none: the command line */
} options[] = {
    {"memcached", .of = OWN_LIMIT_ITEMS, .option = "-m", .unit = MIB, .usual = 64 * MIB},
    {"memcached", .of = OWN_LIMIT_ITEMS, .option = "--memory-limit", .unit = MIB},
    {"redis-server", .of = OWN_LIMIT_KEYS, .option = "--maxmemory", .unit = 1, .decimal = true},
    {"valkey-server", .of = OWN_LIMIT_KEYS, .option = "--maxmemory", .unit = 1, .decimal = true},
    {"cache-main", .of = OWN_LIMIT_STORAGE, .option = "-s", .chars = STORAGE_CHARS, .unit = 1},
    {.language = HEAP_JVM,
     .of = OWN_LIMIT_JAVA,
     .option = "-Xmx",
     .unit = 1,
     .places = {"_JAVA_OPTIONS", COMMAND_LINE, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}},
    {.language = HEAP_V8,
     .of = OWN_LIMIT_JAVASCRIPT,
     .option = "--max-old-space-size",
     .unit = MIB,
     .places = {COMMAND_LINE, "NODE_OPTIONS"}},
};

/* Returns 0 for what is no size. */
static uint64_t parse_size(const char *value, const struct own_limit_option *option)
{
    static const char units[] = "kmgt";
    const char *comma = strrchr(value, ',');
    char *end;
    uint64_t bytes = strtoull(comma ? comma + 1 : value, &end, 10);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    const bool is_decimal = option->decimal && unit && tolower((unsigned char)end[1]) != 'b';

    if (!unit)
        return __builtin_mul_overflow(bytes, option->unit, &bytes) ? 0 : bytes;
    for (const char *at = units; at <= unit; at++)
        if (__builtin_mul_overflow(bytes, (uint64_t)(is_decimal ? 1000 : 1024), &bytes))
            return 0;
    return bytes;
}

struct own_limits {
    const struct target *target;
    char *environment; /* NULL: not read, or not readable */
    size_t len;
};

/* The words of a variable are those of a command line. */
static bool find_in_variable(const struct own_limits *limits, const char *variable,
                             const char *option, const char *chars, char *value, size_t size)
{
    const char *set = text_variable(limits->environment, limits->len, variable);
    AUTO_FREE char *words = set ? strdup(set) : NULL;
    const size_t len = words ? strlen(words) : 0;

    for (char *blank = words; blank && (blank = strpbrk(blank, " \t\n\"'"));)
        *blank++ = '\0';
    return words && words_option(words, len, option, chars, value, size);
}

/* False: the option is nowhere. */
static bool find_limit(const struct own_limits *limits, const struct own_limit_option *option,
                       struct own_limit *limit)
{
    const char *chars = option->chars ? option->chars : SIZE_CHARS;
    char value[64];

    for (size_t i = 0; i < PLACES && (i == 0 || option->places[i]); i++) {
        const char *place = option->places[i];
        const bool in_command = !place || !*place;
        if (!(in_command
                  ? command_option(limits->target, option->option, chars, value, sizeof value)
                  : find_in_variable(limits, place, option->option, chars, value, sizeof value)))
            continue;
        limit->bytes = parse_size(value, option);
        limit->of = limit->bytes ? option->of : OWN_LIMIT_NONE; /* 0: as much as there is */
        limit->option = option->option;
        limit->variable = in_command ? NULL : place;
        limit->is_default = false;
        return true;
    }
    return false;
}

struct own_limit own_limit_find(unsigned kinds, const struct target *target, struct memory *memory)
{
    const enum heap_kind language = heap_kinds_language(kinds);
    struct own_limits limits = {.target = target};
    struct own_limit found = {.of = OWN_LIMIT_NONE};

    if (language == HEAP_JVM || language == HEAP_V8) {
        ssize_t len = environ_read(target, memory, &limits.environment, ENVIRON_MOST);
        limits.len = len > 0 ? (size_t)len : 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const struct own_limit_option *option = &options[i];
        if (option->program ? strcmp(target->stat.comm, option->program) != 0
                            : language != option->language)
            continue;
        if (find_limit(&limits, option, &found))
            break;
        /* Redis shows its options to those who ask it, and its title to others. */
        if (option->usual || option->of == OWN_LIMIT_KEYS)
            found = (struct own_limit){.of = option->of,
                                       .option = option->option,
                                       .bytes = option->usual,
                                       .is_default = option->usual > 0};
    }
    free(limits.environment);
    return found;
}

bool own_limit_is_of_memory(const struct own_limit *limit)
{
    return limit->bytes && (limit->of == OWN_LIMIT_ITEMS || limit->of == OWN_LIMIT_KEYS);
}
