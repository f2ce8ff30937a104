#include "elf/strtab.h"
#include "base/list.h"
#include "base/search.h"

#include <string.h>

enum { STRAY_FIRST = 256 };

bool strtab_open(struct strtab *strtab, const struct sections *sections, const Elf64_Shdr *section,
                 size_t window)
{
    *strtab =
        (struct strtab){.fd = sections->fd, .offset = section->sh_offset, .size = section->sh_size};
    if (!section_in_file(sections, section) || !section->sh_size || section->sh_size > STRTAB_MAX)
        return false;
    strtab->capacity = section->sh_size < window ? section->sh_size : window;
    strtab->window = malloc(strtab->capacity + 1 + SYMBOL_NAME_MAX + 1);
    if (!strtab->window)
        return false;
    strtab->stray = strtab->window + strtab->capacity + 1;
    return true;
}

void strtab_close(struct strtab *strtab)
{
    free(strtab->window);
    strtab->window = NULL;
}

/*
 * Reads n bytes, or up to the end of the table, and adds a NUL. Returns the
 * number of bytes, or 0.
 */
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

/* Finds the length of the name at an offset. False: it does not end in the window. */
static bool window_holds(const struct strtab *strtab, uint64_t at, size_t *len)
{
    if (at < strtab->at || at >= strtab->end)
        return false;
    size_t capacity = (size_t)(strtab->end - at);
    size_t most = capacity < SYMBOL_NAME_MAX ? capacity : SYMBOL_NAME_MAX;
    *len = strnlen(strtab->window + (at - strtab->at), most);
    return *len < capacity || strtab->end == strtab->size;
}

/*
 * Moves the window by at least half its size, or to the end of the table, which
 * bounds the number of reads.
 */
static bool window_move(struct strtab *strtab, uint64_t at, size_t *len)
{
    if (strtab->capacity == strtab->size) /* all of it */
        at = 0;
    if (strtab->end && (at < strtab->at + strtab->capacity / 2 || strtab->end == strtab->size))
        return false;
    size_t n = read_at(strtab, at, strtab->window, strtab->capacity);
    strtab->at = at;
    strtab->end = at + n;
    if (!n) /* the file was truncated: do not try again */
        strtab->capacity = 0;
    return window_holds(strtab, at, len);
}

const char *strtab_name(struct strtab *strtab, uint64_t at)
{
    size_t n;

    if (at >= strtab->size || strtab->looked_at > STRTAB_LOOKED_AT_MAX)
        return NULL;
    if (!window_holds(strtab, at, &n) && !window_move(strtab, at, &n))
        return stray_name(strtab, at);
    strtab->looked_at += n;
    return n < SYMBOL_NAME_MAX ? strtab->window + (at - strtab->at) : NULL;
}

bool strtab_exhausted(const struct strtab *strtab)
{
    return strtab->looked_at > STRTAB_LOOKED_AT_MAX;
}

/* --- the search --- */

static bool pattern_agrees(const struct name_pattern *pattern, const char *name, size_t len)
{
    size_t n = pattern->len;

    if (len < n || (pattern->kind == NAME_WHOLE && len != n))
        return false;
    return memcmp(pattern->kind == NAME_BEGINS ? name : name + len - n, pattern->text, n) == 0;
}

bool name_matches(const struct name_query *query, const char *name, size_t len)
{
    for (size_t i = 0; i < query->count; i++)
        if (pattern_agrees(&query->patterns[i], name, len))
            return true;
    return false;
}

static bool add_span(struct strtab_spans *spans, uint64_t first, uint64_t last)
{
    if (spans->count == STRTAB_SPANS_MAX)
        return false;
    if (!LIST_GROW(spans->list, spans->capacity, spans->count))
        return false;
    spans->list[spans->count++] = (struct strtab_span){first, last};
    return true;
}

static int compare_spans(const void *a, const void *b)
{
    const struct strtab_span *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Sorts the spans and merges those that overlap. */
static void spans_settle(struct strtab_spans *spans)
{
    size_t kept = 0;

    if (!spans->count)
        return;
    qsort(spans->list, spans->count, sizeof *spans->list, compare_spans);
    for (size_t i = 1; i < spans->count; i++) {
        struct strtab_span *former = &spans->list[kept], *next = &spans->list[i];
        if (next->first > former->last)
            spans->list[++kept] = *next;
        else if (next->last > former->last)
            former->last = next->last;
    }
    spans->count = kept + 1;
}

enum { SCAN_MAX = SYMBOL_NAME_MAX + STRTAB_BLOCK, STRETCH = 64, LOOK_AHEAD = 2 };

/* A buffer with whole names; the last one may continue in the next block. */
struct scan {
    const struct name_query *query;
    struct strtab_spans *out;
    size_t shortest; /* shortest length of the names in the query */
    char *bytes;     /* SCAN_MAX, and the bytes that may be examined after them */
    uint64_t at;     /* offset of bytes in the table */
    size_t len;
    bool marks[SCAN_MAX / STRETCH]; /* a name that matches may begin in this stretch */
};

/*
 * Reads the next block and keeps the bytes from rest on; of a name that is too
 * long, only the last ones.
 */
static bool scan_next(const struct strtab *strtab, struct scan *scan, const char *rest)
{
    size_t keep = (size_t)(scan->bytes + scan->len - rest);
    uint64_t next = scan->at + scan->len, left = strtab->size - next;
    size_t n = left < STRTAB_BLOCK ? (size_t)left : STRTAB_BLOCK;

    keep = keep < SYMBOL_NAME_MAX ? keep : SYMBOL_NAME_MAX;
    memmove(scan->bytes, scan->bytes + scan->len - keep, keep);
    scan->at = next - keep;
    scan->len = keep + n;
    return file_read(strtab->fd, strtab->offset + next, scan->bytes + keep, n);
}

/* Compares the first three characters anywhere in a stretch: compilers vectorize this loop. */
static bool stretch_has(const char *bytes, const struct name_pattern *pattern)
{
    const char *text = pattern->text;
    const char second = pattern->len > 1 ? text[1] : 0, second_mask = pattern->len > 1 ? -1 : 0;
    const char third = pattern->len > 2 ? text[2] : 0, third_mask = pattern->len > 2 ? -1 : 0;
    unsigned char found = 0;

    for (size_t i = 0; i < STRETCH; i++)
        found |= (bytes[i] == text[0]) & ((bytes[i + 1] & second_mask) == second) &
                 ((bytes[i + 2] & third_mask) == third);
    return found;
}

static void scan_mark(struct scan *scan)
{
    memset(scan->marks, 0, sizeof scan->marks);
    for (size_t i = 0; i < scan->query->count; i++) {
        const struct name_pattern *pattern = &scan->query->patterns[i];
        if (pattern->kind != NAME_BEGINS)
            continue;
        for (size_t at = 0; at < scan->len; at += STRETCH)
            scan->marks[at / STRETCH] |= stretch_has(scan->bytes + at, pattern);
    }
}

/* Finds where in the name the match begins: a shared tail is stored only once. */
static bool find_beginning(struct scan *scan, const struct name_pattern *pattern, size_t at,
                           size_t len)
{
    for (size_t i = at; i < at + len;) {
        if (!scan->marks[i / STRETCH]) {
            i = (i / STRETCH + 1) * STRETCH;
            continue;
        }
        if (pattern_agrees(pattern, scan->bytes + i, at + len - i) &&
            !add_span(scan->out, scan->at + i, scan->at + i))
            return false;
        i++;
    }
    return true;
}

static bool find_end(struct scan *scan, const struct name_pattern *pattern, size_t at, size_t len)
{
    size_t n = pattern->len, last = at + len - n;
    const char *name = scan->bytes + at;

    if (len < n || name[len - 1] != pattern->text[n - 1] ||
        memcmp(scan->bytes + last, pattern->text, n) != 0)
        return true;
    return add_span(scan->out, scan->at + (pattern->kind == NAME_WHOLE ? last : at),
                    scan->at + last);
}

static bool scan_name(struct scan *scan, const char *name, size_t len)
{
    size_t skip = len > SYMBOL_NAME_MAX ? len - SYMBOL_NAME_MAX : 0;
    size_t at = (size_t)(name - scan->bytes) + skip;

    len -= skip;
    for (size_t i = 0; i < scan->query->count; i++) {
        const struct name_pattern *pattern = &scan->query->patterns[i];
        if (pattern->kind == NAME_BEGINS ? !find_beginning(scan, pattern, at, len)
                                         : !find_end(scan, pattern, at, len))
            return false;
    }
    return true;
}

/*
 * Scans the names of a block. Returns the start of the last name, whose end is
 * missing; NULL: too many.
 */
static const char *scan_block(struct scan *scan)
{
    const char *name = scan->bytes, *end = scan->bytes + scan->len, *nul;

    scan_mark(scan);
    for (; (nul = memchr(name, '\0', (size_t)(end - name))); name = nul + 1) {
        size_t len = (size_t)(nul - name);
        if (len >= scan->shortest && !scan_name(scan, name, len))
            return NULL;
        while (nul + 1 < end && !nul[1]) /* skip a gigabyte of NULs quickly */
            nul++;
    }
    return name;
}

bool strtab_find(const struct strtab *strtab, const struct name_query *query,
                 struct strtab_spans *out)
{
    AUTO_FREE char *bytes = calloc(1, SCAN_MAX + STRETCH + LOOK_AHEAD);
    AUTO_FREE struct scan *scan = malloc(sizeof *scan);
    const char *rest = bytes;

    *out = (struct strtab_spans){0};
    if (!bytes || !scan)
        return false;
    *scan = (struct scan){.query = query, .out = out, .bytes = bytes, .shortest = SIZE_MAX};
    for (size_t i = 0; i < query->count; i++)
        if (query->patterns[i].len < scan->shortest)
            scan->shortest = query->patterns[i].len;
    while (scan->at + scan->len < strtab->size)
        if (!scan_next(strtab, scan, rest) || !(rest = scan_block(scan)))
            return false;
    if (!scan_name(scan, rest, (size_t)(bytes + scan->len - rest)))
        return false;
    spans_settle(out);
    return true;
}

bool strtab_spans_hold(const struct strtab_spans *spans, uint64_t at)
{
    size_t low = SEARCH_FIRST(i, spans->count, at <= spans->list[i].last);
    return low < spans->count && at >= spans->list[low].first;
}
