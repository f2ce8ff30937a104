#include "profile/heap.h"
#include "base/cursor.h"
#include "base/list.h"
#include "base/search.h"
#include "base/table.h"
#include "elf/image.h"
#include "host/task.h"
#include "profile/faults.h"
#include "profile/heap_kind.h"
#include "profile/symbols/symbols.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    MAPPING_PATH_MAX = 4096,
    /* More than any program has; a hostile one writes any number of them, a few bytes each. */
    ADDRESSES_MAX = 2 << 20,
    FRAMES_MAX = HEAP_FRAMES_LIMIT,
    STACKS_MAX = 4 << 20,
    LINES_MAX = 4 << 20,
    THREAD_LINES_MAX = LINES_MAX,
    THREAD_NAMES_MAX = 1 << 20,
    MAPPINGS_MAX = 1 << 18,
    PATHS_MAX = 16 << 20,      /* bytes of them, as of /proc/PID/maps (attach/target.h) */
    ADDRESSES_FIRST = 1 << 10, /* slots of the table */
    NAME_LEN_MAX = 8 << 10,
    NAME_BYTES_MAX = 64 << 20,
    PASSED_STEP = 4 << 20, /* bytes of text */
};

/*
 * The place of each address. Stacks have millions of frames, so this table, unlike
 * base/table.h, has the keys in its slots.
 */
struct address_slot {
    uint64_t address;
    uint32_t place; /* TABLE_NONE: free */
};

struct address_table {
    struct address_slot *slots;
    size_t size, count; /* a power of two; at most half of the slots are used */
};

struct parser {
    struct heap_profile *profile;
    struct cursor text; /* the rest of it */
    struct address_table addresses;
    struct table uids; /* its seed is also that of the addresses */

    size_t address_capacity, frame_capacity, stack_capacity, line_capacity, thread_line_capacity,
        thread_capacity, mapping_capacity, name_capacity;
    bool by_thread; /* thread_lines are kept */
    bool threaded;  /* heap_v2/N, not "heap profile:" */
    bool no_memory;
    const char *too_many; /* the list that exceeded its limit; NULL: none */
    size_t most;
};

static bool text_is_over(const struct parser *parser)
{
    return parser->no_memory || parser->too_many;
}

/* Editors, mail and other systems add blanks and carriage returns at the end of a line. */
static void trim(struct cursor *line)
{
    while (line->at < line->end && strchr(" \t\r", line->end[-1]) && line->end[-1])
        line->end--;
}

static bool next_line(struct parser *parser, struct cursor *line)
{
    if (!cursor_take_line(&parser->text, line))
        return false;
    if (line->end < parser->text.end) {
        trim(line);
        return true;
    }
    parser->profile->cut_short = true; /* no newline: the number at its end may lack digits */
    return false;
}

static void take_spaces(struct cursor *line)
{
    while (line->at < line->end && (*line->at == ' ' || *line->at == '\r'))
        line->at++;
}

static bool take_decimal(struct cursor *line, uint64_t *value)
{
    take_spaces(line);
    return cursor_take_decimal(line, value);
}

/* Parses "0x55d0"; jemalloc's "%#lx" prints 0 as "0". */
static bool take_address(struct cursor *line, uint64_t *value)
{
    take_spaces(line);
    if (cursor_left(*line) > 2)
        (void)cursor_take_text(line, "0x");
    return cursor_take_hex(line, value);
}

/* Parses "28: 4526080 [0: 0]". */
static bool take_counts(struct cursor *line, struct heap_counts *counts)
{
    if (!take_decimal(line, &counts->objects) || !cursor_take_text(line, ":") ||
        !take_decimal(line, &counts->bytes))
        return false;
    take_spaces(line);
    return cursor_take_text(line, "[") && take_decimal(line, &counts->total_objects) &&
           cursor_take_text(line, ":") && take_decimal(line, &counts->total_bytes) &&
           cursor_take_text(line, "]");
}

#define GROW(parser, list, capacity, count, most)                                                  \
    (within_limit(parser, count, most, #list) &&                                                   \
     (LIST_GROW(list, capacity, count) || !((parser)->no_memory = true)))

/* Checks count against its limit and records which list it is: "profile->stacks". */
static bool within_limit(struct parser *parser, size_t count, size_t most, const char *list)
{
    if (count < most)
        return true;
    parser->too_many = list + sizeof "profile->" - 1;
    parser->most = most;
    return false;
}

static struct address_slot *address_slot(const struct parser *parser, uint64_t address)
{
    const struct address_table *table = &parser->addresses;
    size_t at = table_hash_number(&parser->uids, address) & (table->size - 1);

    while (table->slots[at].place != TABLE_NONE && table->slots[at].address != address)
        at = (at + 1) & (table->size - 1);
    return &table->slots[at];
}

static bool addresses_grow(struct parser *parser)
{
    struct address_table *table = &parser->addresses;
    const struct address_table old = *table;
    size_t size = old.size ? 2 * old.size : ADDRESSES_FIRST;

    table->slots = reallocarray(NULL, size, sizeof *table->slots);
    if (!table->slots) {
        *table = old;
        return false;
    }
    table->size = size;
    memset(table->slots, 0xff, size * sizeof *table->slots);
    for (size_t i = 0; i < old.size; i++)
        if (old.slots[i].place != TABLE_NONE)
            *address_slot(parser, old.slots[i].address) = old.slots[i];
    free(old.slots);
    return true;
}

static bool add_frame(struct parser *parser, uint64_t address)
{
    struct heap_profile *profile = parser->profile;
    const struct address_slot *slot = parser->addresses.size ? address_slot(parser, address) : NULL;
    uint32_t place = slot ? slot->place : TABLE_NONE;

    if (!GROW(parser, profile->frames, parser->frame_capacity, profile->frame_count, FRAMES_MAX))
        return false;
    if (place == TABLE_NONE) {
        place = (uint32_t)profile->address_count;
        if (!GROW(parser, profile->addresses, parser->address_capacity, profile->address_count,
                  ADDRESSES_MAX))
            return false;
        if (parser->addresses.count >= parser->addresses.size / 2 && !addresses_grow(parser)) {
            parser->no_memory = true;
            return false;
        }
        *address_slot(parser, address) =
            (struct address_slot){address, (uint32_t)profile->address_count};
        parser->addresses.count++;
        profile->addresses[profile->address_count++] = address;
    }
    profile->frames[profile->frame_count++] = place;
    return true;
}

/* Makes the frames from first on a stack. */
static bool end_stack(struct parser *parser, uint32_t first)
{
    struct heap_profile *profile = parser->profile;

    if (!GROW(parser, profile->stacks, parser->stack_capacity, profile->stack_count, STACKS_MAX))
        return false;
    profile->stacks[profile->stack_count++] =
        (struct heap_stack){first, (uint32_t)profile->frame_count - first};
    if (profile->frame_count - first > profile->deepest)
        profile->deepest = (uint32_t)profile->frame_count - first;
    return true;
}

/* Adds the addresses after the '@'. A word that is not an address ends the stack. */
static bool parse_stack(struct parser *parser, struct cursor *line)
{
    struct heap_profile *profile = parser->profile;
    uint32_t first = (uint32_t)profile->frame_count;
    uint64_t address;

    while (take_address(line, &address))
        if (profile->frame_count - first < HEAP_DEPTH_KEPT && !add_frame(parser, address))
            return false;
    take_spaces(line);
    if (line->at != line->end)
        profile->odd_lines++;
    return end_stack(parser, first);
}

static void add_count_line(struct parser *parser, const struct heap_counts *counts)
{
    struct heap_profile *profile = parser->profile;

    if (!GROW(parser, profile->lines, parser->line_capacity, profile->line_count, LINES_MAX))
        return;
    if (counts->total_objects || counts->total_bytes)
        profile->accumulates = true;
    profile->lines[profile->line_count++] =
        (struct heap_line){(uint32_t)profile->stack_count - 1, TABLE_NONE, *counts};
}

static bool same_uid(const void *ctx, uint32_t place, const void *key)
{
    const struct heap_profile *profile = ctx;
    return profile->threads[place].uid == *(const uint64_t *)key;
}

/* Returns the index of a thread; adds one without a name if the header does not have it. */
static uint32_t find_thread(struct parser *parser, uint64_t uid)
{
    struct heap_profile *profile = parser->profile;
    uint32_t place;

    if (!GROW(parser, profile->threads, parser->thread_capacity, profile->thread_count,
              THREAD_NAMES_MAX))
        return TABLE_NONE;
    place = table_put(&parser->uids, table_hash_number(&parser->uids, uid), same_uid, profile, &uid,
                      (uint32_t)profile->thread_count);
    if (place == TABLE_NONE)
        parser->no_memory = true;
    else if (place == profile->thread_count)
        profile->threads[profile->thread_count++] = (struct heap_thread){uid, NULL};
    return place;
}

/*
 * Parses "t*: ..." and "t3: ...", which belong to the header before the first
 * stack, then to the stack before them.
 */
static bool take_thread(struct parser *parser, struct cursor *line)
{
    struct heap_profile *profile = parser->profile;
    struct heap_thread *thread;
    struct heap_counts counts;
    uint64_t uid = 0;
    uint32_t place;
    bool all;

    if (!cursor_take_text(line, "t"))
        return false;
    all = cursor_take_text(line, "*");
    if ((!all && !take_decimal(line, &uid)) || !cursor_take_text(line, ":") ||
        !take_counts(line, &counts))
        return false;
    take_spaces(line);
    if (all && profile->stack_count == 0) {
        profile->header = counts;
    } else if (all) {
        add_count_line(parser, &counts);
    } else if (profile->stack_count == 0) {
        place = find_thread(parser, uid);
        if (place == TABLE_NONE || line->at == line->end)
            return true;
        thread = &profile->threads[place];
        free(thread->name);
        thread->name = strndup(line->at, cursor_left(*line));
        if (!thread->name)
            parser->no_memory = true;
    } else if (parser->by_thread) {
        place = find_thread(parser, uid);
        if (place != TABLE_NONE && GROW(parser, profile->thread_lines, parser->thread_line_capacity,
                                        profile->thread_line_count, THREAD_LINES_MAX))
            profile->thread_lines[profile->thread_line_count++] =
                (struct heap_line){(uint32_t)profile->stack_count - 1, place, counts};
    }
    return true;
}

static void parse_line(struct parser *parser, struct cursor *line)
{
    struct heap_counts counts;
    bool taken;

    take_spaces(line);
    if (line->at == line->end)
        return;
    if (!parser->threaded) {
        /* "28: 4526080 [0: 0] @ 0x7f1 0x55d0" */
        taken = take_counts(line, &counts);
        take_spaces(line);
        taken = taken && cursor_take_text(line, "@");
        if (taken && parse_stack(parser, line))
            add_count_line(parser, &counts);
    } else if (cursor_take_text(line, "@")) {
        taken = parse_stack(parser, line);
    } else {
        taken = take_thread(parser, line);
    }
    if (!taken)
        parser->profile->odd_lines++;
}

/* Copies the text of the mappings, and the path in it, unless the last mapping has the same. */
static bool copy_path(struct parser *parser, const struct map_entry *entry,
                      struct heap_mapping *mapping)
{
    static const char mark[] = " (deleted)";
    struct heap_profile *profile = parser->profile;
    const struct heap_mapping none = {.path = "", .text = ""};
    const struct heap_mapping *last =
        profile->mapping_count ? &profile->mappings[profile->mapping_count - 1] : &none;
    size_t len = entry->path_len < MAPPING_PATH_MAX ? entry->path_len : MAPPING_PATH_MAX;

    mapping->text = last->text;
    mapping->path = last->path;
    if (strlen(last->text) == len && memcmp(last->text, entry->path, len) == 0)
        return true;
    if (!within_limit(parser, profile->paths.total, PATHS_MAX, "profile->bytes of paths"))
        return false;
    mapping->path = mapping->text = arena_string(&profile->paths, entry->path, len);
    if (len >= sizeof mark - 1 &&
        memcmp(entry->path + len - (sizeof mark - 1), mark, sizeof mark - 1) == 0)
        mapping->path = arena_string(&profile->paths, entry->path, len - (sizeof mark - 1));
    return mapping->text && mapping->path;
}

static void add_mapping(struct parser *parser, const struct map_entry *entry)
{
    struct heap_profile *profile = parser->profile;
    struct heap_mapping next = {.start = entry->start,
                                .end = entry->end,
                                .offset = entry->offset,
                                .inode = entry->dev_major || entry->dev_minor ? entry->inode : 0};
    struct heap_mapping *last = NULL;

    if (!copy_path(parser, entry, &next) ||
        !GROW(parser, profile->mappings, parser->mapping_capacity, profile->mapping_count,
              MAPPINGS_MAX)) {
        parser->no_memory = true; /* also if there are too many */
        return;
    }
    if (profile->mapping_count) /* the list may be elsewhere now */
        last = &profile->mappings[profile->mapping_count - 1];
    if (last && last->end == next.start && *next.path && last->text == next.text &&
        last->inode == next.inode && last->offset + (last->end - last->start) == next.offset)
        last->end = next.end;
    else
        profile->mappings[profile->mapping_count++] = next;
}

static int by_start(const void *a, const void *b)
{
    const struct heap_mapping *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * True if the kernel writes such paths. tcmalloc can shorten them to "$build/lib.so",
 * with a line "build=/home/me" before (gperftools, DumpProcSelfMaps).
 */
static bool is_kernels_path(const struct map_entry *entry)
{
    static const char *const begins[] = {"/", "[", "anon_inode:", "socket:", "memfd:"};

    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (cursor_begins(cursor_of(entry->path, entry->path_len), begins[i]))
            return true;
    return !entry->path_len;
}

/* Takes "55d0c8a01000 8f3a...", the build-id of the file that is mapped there. */
static void take_build_id(struct parser *parser, struct cursor line)
{
    struct heap_profile *profile = parser->profile;
    struct build_id id = {.len = 0}, *copy;
    uint64_t start;
    size_t after;

    trim(&line);
    if (!cursor_take_hex(&line, &start) || !cursor_take_char(&line, ' ') ||
        cursor_left(line) > 2 * BUILD_ID_MAX || cursor_left(line) % 2)
        return;
    for (; cursor_left(line); line.at += 2) {
        const int high = cursor_hex_digit(line.at[0]), low = cursor_hex_digit(line.at[1]);
        if (high < 0 || low < 0)
            return;
        id.bytes[id.len++] = (unsigned char)(high << 4 | low);
    }
    after = SEARCH_FIRST(i, profile->mapping_count, start < profile->mappings[i].start);
    if (!id.len || !after || start >= profile->mappings[after - 1].end ||
        profile->mappings[after - 1].build_id || profile->paths.total >= PATHS_MAX)
        return;
    copy = arena_alloc(&profile->paths, sizeof *copy);
    if (copy)
        *copy = id;
    profile->mappings[after - 1].build_id = copy;
}

static void take_maps(struct parser *parser)
{
    struct heap_profile *profile = parser->profile;
    const struct cursor all = parser->text;
    uint64_t end = 0;
    struct map_entry entry;
    struct cursor line;
    size_t kept = 0;
    int found;

    profile->has_maps = true;
    profile->cut_short = cursor_left(all) && all.end[-1] != '\n';
    while (!text_is_over(parser)) {
        line = parser->text;
        found = parse_map_line(&parser->text, &entry);
        if (found == 0)
            break;
        if (found < 0) {
            take_spaces(&line);
            profile->odd_maps += !cursor_begins(line, "\n") && !cursor_begins(line, "#");
            continue;
        }
        end = entry.end;
        struct cursor path = cursor_of(entry.path, entry.path_len);
        trim(&path);
        entry.path_len = cursor_left(path);
        if (entry.prot & MAP_EXEC) {
            profile->odd_maps += !is_kernels_path(&entry);
            add_mapping(parser, &entry);
        }
    }
    /* Makes each address belong to at most one mapping, whatever the text contains. */
    if (profile->mapping_count)
        qsort(profile->mappings, profile->mapping_count, sizeof *profile->mappings, by_start);
    for (size_t i = 0; i < profile->mapping_count; i++) {
        struct heap_mapping *mapping = &profile->mappings[i];
        if (mapping->start < mapping->end &&
            (!kept || profile->mappings[kept - 1].end <= mapping->start))
            profile->mappings[kept++] = *mapping;
        else
            profile->odd_maps++;
    }
    profile->mapping_count = kept;
    /* The innermost call was code; the others may be an unwinder's mistake. */
    for (size_t i = 0; i < profile->stack_count; i++)
        if (profile->stacks[i].depth)
            profile->maps_cut |=
                profile->addresses[profile->frames[profile->stacks[i].first]] > end;
    parser->text = all;
    while (!text_is_over(parser) && cursor_take_line(&parser->text, &line))
        if (cursor_take_text(&line, "# build-id "))
            take_build_id(parser, line);
}

/* Parses "heap profile: 28: 4526080 [0: 0] @ heap_v2/524288"; the period may be missing. */
static bool take_old_header(struct parser *parser, struct cursor *line)
{
    struct heap_profile *profile = parser->profile;

    if (!take_counts(line, &profile->header))
        return false;
    take_spaces(line);
    profile->sampling = HEAP_EXACT;
    profile->period = 1;
    if (!cursor_take_text(line, "@"))
        return true;
    take_spaces(line);
    if (line->at == line->end)
        return true;
    if (cursor_take_text(line, "heap_v2/") || cursor_take_text(line, "heapz_v2/"))
        profile->sampling = HEAP_POISSON;
    else if (cursor_take_text(line, "heap/"))
        profile->sampling = HEAP_UNIFORM;
    else
        return cursor_take_text(line, "heapprofile");
    return take_decimal(line, &profile->period);
}

static const char begin[] = "heap_v2/", old_begin[] = "heap profile:";

static int by_address(const void *a, const void *b)
{
    const struct symbol_given *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Takes "0x000055d0 main"; names of jeprof may end in an address: "main<00000000000011b2>". */
static bool take_name(struct parser *parser, struct cursor line)
{
    struct heap_profile *profile = parser->profile;
    const struct symbol_given *last =
        profile->name_count ? &profile->names[profile->name_count - 1] : NULL;
    struct symbol_given name;
    size_t len;

    if (!take_address(&line, &name.address) || !cursor_take_char(&line, ' '))
        return true;
    take_spaces(&line);
    len = cursor_left(line);
    if (len > 18 && line.end[-1] == '>' && line.end[-18] == '<')
        len -= 18;
    if (!len || len > NAME_LEN_MAX || cursor_begins(line, "0x") || memchr(line.at, 0, len))
        return true;
    if (last && strlen(last->text) == len && memcmp(last->text, line.at, len) == 0)
        name.text = last->text;
    else if (within_limit(parser, profile->name_texts.total, NAME_BYTES_MAX,
                          "profile->bytes of names"))
        name.text = arena_string(&profile->name_texts, line.at, len);
    else
        return false;
    parser->no_memory = !name.text;
    if (!name.text || !GROW(parser, profile->names, parser->name_capacity, profile->name_count,
                            2 * ADDRESSES_MAX))
        return false;
    profile->names[profile->name_count++] = name;
    return true;
}

/* Takes the names up to the line "---", and what follows, up to the header. */
static void take_names(struct parser *parser)
{
    struct heap_profile *profile = parser->profile;
    struct cursor rest, line;

    while (next_line(parser, &line) && !cursor_begins(line, "---"))
        if (!take_name(parser, line))
            return;
    if (profile->name_count)
        qsort(profile->names, profile->name_count, sizeof *profile->names, by_address);
    for (rest = parser->text; next_line(parser, &line); rest = parser->text)
        if (cursor_begins(line, begin) || cursor_begins(line, old_begin))
            break;
    parser->text = rest;
}

static bool take_header(struct parser *parser, const char *text)
{
    struct heap_profile *profile = parser->profile;
    struct cursor line;
    bool good;

    if (cursor_begins(parser->text, "--- symbol") && next_line(parser, &line))
        take_names(parser);
    profile->header_at = (size_t)(parser->text.at - text);
    if (!next_line(parser, &line))
        return false;
    parser->threaded = cursor_take_text(&line, begin);
    if (parser->threaded)
        good = take_decimal(&line, &profile->period);
    else
        good = cursor_take_text(&line, old_begin) && take_old_header(parser, &line);
    if (profile->sampling == HEAP_UNIFORM)
        profile->period /= 2; /* the text has twice the mean (jeprof's ReadHeapProfile) */
    if (profile->period <= 1)
        profile->sampling = HEAP_EXACT;
    take_spaces(&line);
    return good && profile->period > 0 && line.at == line.end;
}

fault_code heap_parse_once(struct heap_profile *profile, const char *text, size_t len,
                           bool by_thread, const struct heap_reader *reader, struct fault *fault)
{
    text = len ? text : ""; /* nothing was read */
    struct parser parser = {
        .profile = profile, .text = cursor_of(text, len), .by_thread = by_thread};
    const size_t start = heap_start(text, len);
    const char *what,
        *passed = text; /* the part of the text before it has been passed to the reader */
    struct cursor line;
    bool good;

    memset(profile, 0, sizeof *profile);
    table_init(&parser.uids);
    parser.text.at += start == SIZE_MAX ? 0 : start;
    good = start != SIZE_MAX && take_header(&parser, text);
    while (good && !text_is_over(&parser) && next_line(&parser, &line)) {
        take_spaces(&line);
        if (cursor_begins(line, "MAPPED_LIBRARIES:")) {
            take_maps(&parser);
            break;
        }
        parse_line(&parser, &line);
        /* Tells the reader from time to time how much of the text is no longer needed. */
        size_t done = (size_t)(parser.text.at - passed);
        if (reader && done >= PASSED_STEP) {
            reader->passed(reader->ctx, passed, done);
            passed = parser.text.at;
        }
    }
    free(parser.addresses.slots);
    table_free(&parser.uids);
    if (parser.too_many)
        return fault_set(fault, FAULT_TOO_LARGE, 0, "parse", "%zu %s", parser.most,
                         parser.too_many);
    if (parser.no_memory)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "parse", "the profile");
    if (!good) {
        const int kind = heap_other_kind(text, len, &what);
        fault_set(fault, FAULT_PROFILE, 0, "parse", "%s", what);
        fault_set_reason(fault, kind);
        return FAULT_PROFILE;
    }
    return FAULT_NONE;
}

fault_code heap_parse(struct heap_profile *profile, const char *text, size_t len,
                      struct fault *fault)
{
    return heap_parse_once(profile, text, len, true, NULL, fault);
}

bool heap_of_stacks(struct heap_profile *profile, const uint64_t *words,
                    const struct heap_stack *stacks, size_t count)
{
    struct parser parser = {.profile = profile};
    const struct heap_counts none = {0};
    bool good = true;

    memset(profile, 0, sizeof *profile);
    table_init(&parser.uids);
    for (size_t i = 0; good && i < count; i++) {
        uint32_t first = (uint32_t)profile->frame_count;
        for (uint32_t j = 0; good && j < stacks[i].depth && j < HEAP_DEPTH_KEPT; j++)
            good = add_frame(&parser, words[stacks[i].first + j]);
        good = good && end_stack(&parser, first);
        if (good)
            add_count_line(&parser, &none);
    }
    free(parser.addresses.slots);
    table_free(&parser.uids);
    return good && profile->line_count == count;
}

void heap_free(struct heap_profile *profile)
{
    for (size_t i = 0; i < profile->thread_count; i++)
        free(profile->threads[i].name);
    arena_free(&profile->paths);
    arena_free(&profile->name_texts);
    free(profile->names);
    free(profile->addresses);
    free(profile->frames);
    free(profile->stacks);
    free(profile->lines);
    free(profile->thread_lines);
    free(profile->threads);
    free(profile->mappings);
    memset(profile, 0, sizeof *profile);
}

struct heap_estimate heap_estimate(const struct heap_profile *profile, uint64_t objects,
                                   uint64_t bytes)
{
    double n = (double)objects, s = (double)bytes, period = (double)profile->period;

    if (objects == 0 || bytes == 0 || profile->sampling == HEAP_EXACT)
        return (struct heap_estimate){n, s, 0, 0};
    double size = s / n, scale = size < period ? period / size : 1;
    /*
     * An allocation of z bytes is sampled with probability p = 1 - exp(-z/period),
     * so a sample stands for 1/p allocations. The variance of a sum of n samples of
     * z/p each is estimated without bias by n * (z/p)^2 * (1 - p) (Horvitz-Thompson).
     */
    if (profile->sampling == HEAP_POISSON) {
        double p = -expm1(-size / period), spread = n * (1 - p) / (p * p);
        return (struct heap_estimate){n / p, s / p, spread * size * size, spread};
    }
    return (struct heap_estimate){n * scale, s * scale, (scale - 1) * scale * s * s / n,
                                  (scale - 1) * scale * n};
}

bool heap_stack_cut(const struct heap_profile *profile, const struct heap_stack *stack)
{
    uint32_t limit = profile->deepest > HEAP_DEPTH_LIMIT ? profile->deepest : HEAP_DEPTH_LIMIT;

    return stack->depth >= limit;
}

/* False: another file has the path of the first one now. */
static bool same_file(const struct heap_mapping *a, const struct heap_mapping *b)
{
    if (a->build_id && b->build_id)
        return build_id_equal(a->build_id, b->build_id);
    return a->inode == b->inode;
}

bool heap_same_mappings(const struct heap_profile *a, const struct heap_profile *b)
{
    if (a->mapping_count != b->mapping_count || a->name_count || b->name_count)
        return false;
    for (size_t i = 0; i < a->mapping_count; i++) {
        const struct heap_mapping *x = &a->mappings[i], *y = &b->mappings[i];
        if (x->start != y->start || x->end != y->end || x->offset != y->offset ||
            strcmp(x->path, y->path) != 0 || !same_file(x, y))
            return false;
    }
    return true;
}

/* The kernel maps the libraries above it. */
static const struct heap_mapping *find_program(const struct heap_profile *profile)
{
    for (size_t i = 0; i < profile->mapping_count; i++)
        if (profile->mappings[i].path[0] == '/')
            return &profile->mappings[i];
    return NULL;
}

bool heap_same_program(const struct heap_profile *a, const struct heap_profile *b)
{
    const struct heap_mapping *of_a = find_program(a), *of_b = find_program(b);

    return a->period == b->period && of_a && of_b && strcmp(of_a->path, of_b->path) == 0 &&
           same_file(of_a, of_b);
}

/* The kernel places it at random also where the program is not position-independent. */
static const struct heap_mapping *find_vdso(const struct heap_profile *profile)
{
    for (size_t i = 0; i < profile->mapping_count; i++)
        if (strcmp(profile->mappings[i].path, "[vdso]") == 0)
            return &profile->mappings[i];
    return NULL;
}

bool heap_same_process(const struct heap_profile *a, const struct heap_profile *b)
{
    const struct heap_mapping *vdso = find_vdso(a), *other = find_vdso(b);
    size_t more = a->mapping_count > b->mapping_count ? a->mapping_count : b->mapping_count;
    size_t common = 0;

    if (a->period != b->period || !more || (vdso && other && vdso->start != other->start))
        return false;
    /* Both are sorted; a library may have been loaded or unloaded in between. */
    for (size_t i = 0, j = 0; i < a->mapping_count && j < b->mapping_count;) {
        const struct heap_mapping *x = &a->mappings[i], *y = &b->mappings[j];
        common += x->start == y->start && strcmp(x->path, y->path) == 0;
        i += x->start <= y->start;
        j += y->start <= x->start;
    }
    return common >= (more + 1) / 2;
}
