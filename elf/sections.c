#include "elf/sections.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "base/search.h"

#include <string.h>

enum { BLOCK_HEADERS = 256, SECTION_NAME_MAX = 32 };

bool section_at(const struct sections *sections, uint64_t index, Elf64_Shdr *out)
{
    return index < sections->count &&
           file_read(sections->fd, sections->offset + index * sizeof *out, out, sizeof *out);
}

bool section_in_file(const struct sections *sections, const Elf64_Shdr *section)
{
    return section->sh_type != SHT_NOBITS && section->sh_offset <= sections->file_size &&
           section->sh_size <= sections->file_size - section->sh_offset;
}

bool sections_open(struct sections *sections, int fd)
{
    Elf64_Shdr *names = &sections->names, zero;
    size_t n = sizeof sections->first_names;
    Elf64_Ehdr header;

    memset(sections, 0, sizeof *sections);
    sections->fd = fd;
    sections->file_size = file_size(fd);
    if (!file_read(fd, 0, &header, sizeof header) || !elf_header_valid(&header) ||
        header.e_shoff == 0 || header.e_shentsize != sizeof zero ||
        header.e_shoff > sections->file_size)
        return false;

    /* e_shnum 0: the count is sh_size of section 0. */
    sections->offset = header.e_shoff;
    sections->count = 1;
    if (!section_at(sections, 0, &zero))
        return false;
    sections->count = header.e_shnum ? header.e_shnum : zero.sh_size;
    if (sections->count == 0 || sections->count > SECTIONS_MAX)
        return false;
    if (sections->count > (sections->file_size - sections->offset) / sizeof zero)
        sections->count = (sections->file_size - sections->offset) / sizeof zero;

    /* e_shstrndx SHN_XINDEX: the index is sh_link of section 0. */
    uint64_t index = header.e_shstrndx == SHN_XINDEX ? zero.sh_link : header.e_shstrndx;
    if (index == SHN_UNDEF || !section_at(sections, index, names) || names->sh_type != SHT_STRTAB ||
        !section_in_file(sections, names))
        names->sh_size = 0;
    if (names->sh_size < n)
        n = (size_t)names->sh_size;
    return !n || file_read(fd, names->sh_offset, sections->first_names, n);
}

/* Reads the start of a name; bytes after the end of the table are NUL. */
static void read_name(const struct sections *sections, const Elf64_Shdr *section,
                      char name[SECTION_NAME_MAX])
{
    uint64_t size = sections->names.sh_size, at = section->sh_name;
    size_t n = SECTION_NAME_MAX - 1;

    memset(name, 0, SECTION_NAME_MAX);
    if (at >= size)
        return;
    if (size - at < n)
        n = (size_t)(size - at);
    if (at + n <= sizeof sections->first_names)
        memcpy(name, sections->first_names + at, n);
    else
        file_read(sections->fd, sections->names.sh_offset + at, name, n);
}

/* wanted NULL: by type. */
static bool find_section(const struct sections *sections, uint32_t type, const char *wanted,
                         Elf64_Shdr *out)
{
    Elf64_Shdr block[BLOCK_HEADERS];
    char name[SECTION_NAME_MAX];

    for (uint64_t done = 0; done < sections->count; done += BLOCK_HEADERS) {
        uint64_t left = sections->count - done;
        size_t n = left < BLOCK_HEADERS ? (size_t)left : BLOCK_HEADERS;
        if (!file_read(sections->fd, sections->offset + done * sizeof *block, block,
                       n * sizeof *block))
            return false;
        for (size_t i = 0; i < n; i++) {
            bool found = !wanted && block[i].sh_type == type;
            if (wanted && block[i].sh_type != SHT_NULL) {
                read_name(sections, &block[i], name);
                found = strcmp(name, wanted) == 0;
            }
            if (found) {
                *out = block[i];
                return true;
            }
        }
    }
    return false;
}

bool section_of_type(const struct sections *sections, uint32_t type, Elf64_Shdr *out)
{
    return find_section(sections, type, NULL, out);
}

bool section_named(const struct sections *sections, const char *name, Elf64_Shdr *out)
{
    return sections->names.sh_size > 0 && find_section(sections, SHT_NULL, name, out);
}

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

enum { CHUNK_SYMBOLS = 16384, FILE_NAME_MAX = 4096 };

struct search {
    struct strtab *names;
    const struct name_query *query; /* NULL: all names */
    struct strtab_spans spans;      /* where the matching names are, if known */
    bool known;
    unsigned types; /* bit 1 << STT_* */
    uint64_t bias;
    symbol_visitor visit;
    void *ctx;
    /*
     * The last STT_FILE symbol: the local symbols after it belong to that file (ELF, "Symbol
     * Table").
     */
    bool has_file, file_read;
    uint32_t file_at;
    char file[FILE_NAME_MAX];
};

/* Reads the file's name only when it is needed: a search by name needs few. */
static const char *source_file(struct search *search)
{
    if (!search->has_file)
        return NULL;
    if (!search->file_read) {
        const char *name = strtab_name(search->names, search->file_at);
        size_t n = name ? strnlen(name, FILE_NAME_MAX) : 0;
        search->has_file = name && n < FILE_NAME_MAX;
        search->file_read = true;
        if (search->has_file)
            memcpy(search->file, name, n + 1);
    }
    return search->has_file ? search->file : NULL;
}

static bool visit_entry(struct search *search, const Elf64_Sym *sym)
{
    struct symbol symbol = {
        .address = sym->st_value + search->bias,
        .size = sym->st_size,
        .type = ELF64_ST_TYPE(sym->st_info),
        .local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL,
    };
    const char *name;

    if (symbol.type == STT_FILE) {
        search->has_file = true;
        search->file_read = false;
        search->file_at = sym->st_name;
    }
    if (!(search->types >> symbol.type & 1) || sym->st_shndx == SHN_UNDEF || !sym->st_value ||
        (search->known && !search->query->others &&
         !strtab_spans_hold(&search->spans, sym->st_name)))
        return true;
    symbol.file = symbol.local ? source_file(search) : NULL;
    if (search->known && !strtab_spans_hold(&search->spans, sym->st_name))
        return search->visit(search->ctx, NULL, &symbol);
    name = strtab_name(search->names, sym->st_name);
    if (!name)
        return true;
    if (search->query && !name_matches(search->query, name, strlen(name)))
        return !search->query->others || search->visit(search->ctx, NULL, &symbol);
    return search->visit(search->ctx, name, &symbol);
}

/* Returns false if a symbol could not be read. */
static bool visit_entries(int fd, const Elf64_Shdr *section, struct search *search)
{
    uint64_t count = section->sh_size / sizeof(Elf64_Sym);
    AUTO_FREE Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof *chunk);
    const sig_atomic_t begun = interruptions();

    for (uint64_t done = 0; chunk && done < count;) {
        size_t n = count - done < CHUNK_SYMBOLS ? (size_t)(count - done) : CHUNK_SYMBOLS;
        if (interruptions_ended(begun) ||
            !file_read(fd, section->sh_offset + done * sizeof *chunk, chunk, n * sizeof *chunk))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!visit_entry(search, &chunk[i]))
                return true;
        done += n;
    }
    return chunk && !strtab_exhausted(search->names);
}

static bool visit_types(int fd, uint32_t table, unsigned types, struct search *search)
{
    struct sections sections;
    Elf64_Shdr symbols, strings;
    struct strtab names;
    bool good;

    if (!sections_open(&sections, fd) || !section_of_type(&sections, table, &symbols) ||
        !section_at(&sections, symbols.sh_link, &strings) || !section_in_file(&sections, &symbols))
        return false;
    if (symbols.sh_flags & SHF_COMPRESSED || strings.sh_flags & SHF_COMPRESSED ||
        symbols.sh_size / sizeof(Elf64_Sym) > SYMTAB_SYMBOLS_MAX)
        return false;
    good = strtab_open(&names, &sections, &strings, search->query ? STRTAB_BLOCK : STRTAB_WINDOW);
    search->names = &names;
    search->types = types;
    search->known = good && search->query && strtab_find(&names, search->query, &search->spans);
    if (good && (!search->known || search->spans.count || search->query->others))
        good = visit_entries(fd, &symbols, search);
    free(search->spans.list);
    strtab_close(&names);
    return good;
}

bool symtab_visit(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                  void *ctx)
{
    struct search search = {.query = names, .bias = bias, .visit = visit, .ctx = ctx};

    return visit_types(fd, SHT_SYMTAB, 1u << STT_FUNC, &search);
}

bool symtab_visit_all(int fd, uint64_t bias, const struct name_query *names, symbol_visitor visit,
                      void *ctx)
{
    struct search search = {.query = names, .bias = bias, .visit = visit, .ctx = ctx};

    return visit_types(fd, SHT_SYMTAB, 1u << STT_FUNC | 1u << STT_OBJECT, &search);
}

bool symtab_visit_dynamic(int fd, uint64_t bias, symbol_visitor visit, void *ctx)
{
    struct search search = {.bias = bias, .visit = visit, .ctx = ctx};

    return visit_types(fd, SHT_DYNSYM, 1u << STT_FUNC | 1u << STT_OBJECT, &search);
}
