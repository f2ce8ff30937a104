#include "profile/heap_kind.h"
#include "base/cursor.h"
#include "base/util.h"
#include "profile/faults.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

static const char *const begins[] = {"heap_v2/", "heap profile:", "--- symbol"};

static const char go_mark[] = "\n#\t0x"; /* the names that Go writes below each stack */

size_t heap_start(const char *text, size_t len)
{
    struct cursor all = cursor_of(text, len < HEAP_SEARCH_MAX ? len : HEAP_SEARCH_MAX), line;

    if (memmem(all.at, cursor_left(all), go_mark, sizeof go_mark - 1))
        return SIZE_MAX;
    (void)cursor_take_text(&all, "\xef\xbb\xbf"); /* UTF-8's mark */
    while (cursor_take_line(&all, &line)) {
        cursor_skip_blanks(&line);
        for (size_t i = 0; i < ARRAY_LEN(begins); i++)
            if (cursor_begins(line, begins[i]))
                return (size_t)(line.at - text);
        if (memchr(line.at, 0, cursor_left(line)))
            break;
    }
    return SIZE_MAX;
}

static const struct {
    const char *magic;
    size_t len;
    int reason;
    const char *what;
} kinds[] = {
    {"JAVA PROFILE", 12, PROFILE_JAVA, "it is a heap dump of Java (hprof)"},
    {"PERFILE2", 8, PROFILE_PERF, "it is a recording of perf"},
    {"\xfd"
     "7zXZ",
     5, PROFILE_XZ, "it is compressed (xz)"},
    {"BZh", 3, PROFILE_BZIP2, "it is compressed (bzip2)"},
    {"\x04\x22\x4d\x18", 4, PROFILE_LZ4, "it is compressed (lz4)"},
    {"___ Begin jemalloc statistics", 29, PROFILE_NONE, "it is a report of jemalloc's statistics"},
    {"desc: ", 6, PROFILE_MASSIF, "it is a profile of valgrind's massif"},
};

int heap_other_kind(const char *text, size_t len, const char **what)
{
    const struct cursor all = cursor_of(text, len);
    uint16_t type;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (len >= kinds[i].len && memcmp(text, kinds[i].magic, kinds[i].len) == 0) {
            *what = kinds[i].what;
            return kinds[i].reason;
        }
    if (len > EI_NIDENT + sizeof type && memcmp(text, ELFMAG, SELFMAG) == 0) {
        memcpy(&type, text + EI_NIDENT, sizeof type);
        *what = type == ET_CORE ? "it is a core file" : "it is a program or a library";
        return type == ET_CORE ? PROFILE_CORE : PROFILE_PROGRAM;
    }
    /* profile.proto begins with a sample_type, and that with its type. */
    if (len > 3 && text[0] == 0x0a && text[2] == 0x08) {
        *what = "it is a profile for pprof (profile.proto)";
        return PROFILE_PPROF;
    }
    if (memmem(text, len < HEAP_SEARCH_MAX ? len : HEAP_SEARCH_MAX, go_mark, sizeof go_mark - 1)) {
        *what = "it is a profile of Go";
        return PROFILE_GO;
    }
    if (len == 0)
        *what = "it is empty";
    else if (cursor_begins(all, "heap"))
        *what = "its header has an unknown form";
    else
        *what = "it has no line that begins with heap_v2/";
    return PROFILE_NONE;
}
