#include "host/meminfo.h"

enum { MEMINFO_TEXT_MAX = 8192 };

bool meminfo_parse(struct cursor text, const char *key, uint64_t *bytes)
{
    return cursor_find_number(text, key, bytes) && !__builtin_mul_overflow(*bytes, 1024u, bytes);
}

bool meminfo_read(const struct procfs *proc, const char *key, uint64_t *bytes)
{
    char text[MEMINFO_TEXT_MAX];
    ssize_t n = procfs_read(proc, text, sizeof text, "meminfo");

    return n > 0 && meminfo_parse(cursor_of(text, (size_t)n), key, bytes);
}
