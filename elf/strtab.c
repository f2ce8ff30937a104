#include "elf/strtab.h"

#include <string.h>

enum { STRAY_FIRST = 256 };

bool strtab_open(struct strtab *strtab, const struct sections *sections, const Elf64_Shdr *section,
                 size_t window)
{
    *strtab =
        (struct strtab){.fd = sections->fd, .offset = section->sh_offset, .size = section->sh_size};
    if (!section_in_file(sections, section) || !section->sh_size || section->sh_size > STRTAB_MAX)
        return false;
    strtab->room = section->sh_size < window ? section->sh_size : window;
    strtab->window = malloc(strtab->room + 1 + SYMBOL_NAME_MAX + 1);
    if (!strtab->window)
        return false;
    strtab->stray = strtab->window + strtab->room + 1;
    return true;
}

void strtab_close(struct strtab *strtab)
{
    free(strtab->window);
    strtab->window = NULL;
}

/* Reads n bytes, or up to the end of the table, and a NUL after them. The count, or 0. */
static size_t read_at(const struct strtab *strtab, uint64_t at, char *buf, size_t n)
{
    if (strtab->size - at < n)
        n = (size_t)(strtab->size - at);
    if (!file_read(strtab->fd, strtab->offset + at, buf, n))
        return 0;
    buf[n] = '\0';
    return n;
}

static const char *stray_name(struct strtab *strtab, uint64_t at)
{
    static const size_t sizes[] = {STRAY_FIRST, SYMBOL_NAME_MAX};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        size_t n = read_at(strtab, at, strtab->stray, sizes[i]);
        strtab->looked_at += n;
        if (!n)
            return NULL;
        if (strlen(strtab->stray) < n || (n < sizes[i] && at + n == strtab->size))
            return strtab->stray;
    }
    return NULL;
}

static bool window_holds(const struct strtab *strtab, uint64_t at)
{
    return at >= strtab->at && at < strtab->end &&
           (strtab->end == strtab->size ||
            memchr(strtab->window + (at - strtab->at), '\0', strtab->end - at));
}

/* It moves by half of it at least, or to the end of the table: never more reads than that. */
static bool window_move(struct strtab *strtab, uint64_t at)
{
    if (strtab->room == strtab->size) /* all of it */
        at = 0;
    if (strtab->end && (at < strtab->at + strtab->room / 2 || strtab->end == strtab->size))
        return false;
    size_t n = read_at(strtab, at, strtab->window, strtab->room);
    strtab->at = at;
    strtab->end = at + n;
    if (!n) /* the file became shorter: no second try */
        strtab->room = 0;
    return window_holds(strtab, at);
}

const char *strtab_name(struct strtab *strtab, uint64_t at)
{
    const char *name;
    size_t n;

    if (at >= strtab->size || strtab->looked_at > STRTAB_LOOKED_AT_MAX)
        return NULL;
    if (!window_holds(strtab, at) && !window_move(strtab, at))
        return stray_name(strtab, at);
    name = strtab->window + (at - strtab->at);
    n = strnlen(name, SYMBOL_NAME_MAX);
    strtab->looked_at += n;
    return n < SYMBOL_NAME_MAX ? name : NULL;
}

bool strtab_exhausted(const struct strtab *strtab)
{
    return strtab->looked_at > STRTAB_LOOKED_AT_MAX;
}

/* A block, behind as much of the former one as a name may have. */
struct scan {
    char *bytes; /* SYMBOL_NAME_MAX + STRTAB_BLOCK */
    uint64_t at; /* of bytes, in the table */
    size_t kept, len;
};

static bool scan_next(const struct strtab *strtab, struct scan *scan)
{
    size_t keep = scan->len < SYMBOL_NAME_MAX ? scan->len : SYMBOL_NAME_MAX;
    uint64_t next = scan->at + scan->len, left = strtab->size - next;
    size_t n = left < STRTAB_BLOCK ? (size_t)left : STRTAB_BLOCK;

    memmove(scan->bytes, scan->bytes + scan->len - keep, keep);
    scan->at = next - keep;
    scan->kept = keep;
    scan->len = keep + n;
    return file_read(strtab->fd, strtab->offset + next, scan->bytes + keep, n);
}

static bool spans_add(struct strtab_spans *spans, uint64_t first, uint64_t last)
{
    if (spans->count && first <= spans->list[spans->count - 1].last) {
        spans->list[spans->count - 1].last = last;
        return true;
    }
    if (spans->count == STRTAB_SPANS_MAX)
        return false;
    if ((spans->count & (spans->count - 1)) == 0) {
        size_t room = spans->count ? spans->count * 2 : 1;
        struct strtab_span *list = reallocarray(spans->list, room, sizeof *list);
        if (!list)
            return false;
        spans->list = list;
    }
    spans->list[spans->count++] = (struct strtab_span){first, last};
    return true;
}

/*
 * Every place of part that ends in the new bytes of the block. Without a NUL
 * since the former place it is in the same name.
 */
static bool scan_block(const struct scan *scan, const char *part, size_t len,
                       struct strtab_spans *out)
{
    const char *from = scan->bytes + (scan->kept < len ? 0 : scan->kept - len + 1), *hit;
    const char *end = scan->bytes + scan->len, *name = scan->bytes;

    for (; (hit = memmem(from, (size_t)(end - from), part, len)); from = hit + 1) {
        const char *nul = memrchr(name, '\0', (size_t)(hit - name));
        const char *first = nul ? nul + 1 : name;
        if (!spans_add(out, scan->at + (uint64_t)(first - scan->bytes),
                       scan->at + (uint64_t)(hit - scan->bytes)))
            return false;
        name = hit;
    }
    return true;
}

bool strtab_find(const struct strtab *strtab, const char *part, struct strtab_spans *out)
{
    AUTO_FREE char *bytes = malloc(SYMBOL_NAME_MAX + STRTAB_BLOCK);
    struct scan scan = {.bytes = bytes};
    size_t len = strlen(part);

    *out = (struct strtab_spans){0};
    if (!bytes || !len || len >= SYMBOL_NAME_MAX)
        return false;
    while (scan.at + scan.len < strtab->size)
        if (!scan_next(strtab, &scan) || !scan_block(&scan, part, len, out))
            return false;
    return true;
}

bool strtab_spans_hold(const struct strtab_spans *spans, uint64_t at)
{
    size_t low = 0, high = spans->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (at > spans->list[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < spans->count && at >= spans->list[low].first;
}
