#include "jemalloc/recent_list.h"
#include "base/cursor.h"
#include "base/list.h"
#include "jemalloc/faults.h"

#include <errno.h>

enum {
    KEY_MAX = 64,          /* bytes of a key */
    PRINTED_MAX = 256,     /* bytes of a name with its quotes, as jemalloc prints it */
    DEPTH_MAX = 16,        /* of the values that are skipped */
    RECORDS_MAX = 4 << 20, /* a hostile target writes any number of them, two bytes each */
};

struct recent_parser {
    struct recent_list *list;
    struct cursor text; /* the rest of it */
    bool no_memory;
};

/* A member that is known; the cursor is at its value. */
typedef bool (*take_member)(struct recent_parser *parser, struct cursor key, void *ctx);

static bool take_mark(struct recent_parser *parser, char ch)
{
    return cursor_take_char(&parser->text, ch);
}

/* ---- values of any kind ---- */

/* Takes a string whose quotes are escaped, and returns what is between its quotes. */
static bool take_string(struct recent_parser *parser, struct cursor *string)
{
    struct cursor *text = &parser->text;

    if (!take_mark(parser, '"'))
        return false;
    string->at = text->at;
    while (text->at < text->end && *text->at != '"')
        text->at += *text->at == '\\' && cursor_left(*text) > 1 ? 2 : 1;
    string->end = text->at;
    return take_mark(parser, '"');
}

/* Takes a number or a word: "12", "-1", "true". */
static bool take_plain(struct recent_parser *parser)
{
    struct cursor *text = &parser->text;
    const char *first = text->at;

    while (text->at < text->end && !memchr(",]}[{\":", *text->at, 7))
        text->at++;
    return text->at > first;
}

/* Skips a value that later versions may have added. */
static bool skip_value(struct recent_parser *parser, unsigned depth)
{
    struct cursor string;
    char close;

    if (parser->text.at == parser->text.end || depth == DEPTH_MAX)
        return false;
    if (*parser->text.at == '"')
        return take_string(parser, &string);
    if (*parser->text.at != '{' && *parser->text.at != '[')
        return take_plain(parser);
    close = *parser->text.at++ == '{' ? '}' : ']';
    while (!take_mark(parser, close)) {
        if (close == '}' && (!take_string(parser, &string) || !take_mark(parser, ':')))
            return false;
        if (!skip_value(parser, depth + 1))
            return false;
        (void)take_mark(parser, ',');
    }
    return true;
}

/* Takes "{key:value,...}". */
static bool take_object(struct recent_parser *parser, take_member member, void *ctx)
{
    struct cursor key;

    if (!take_mark(parser, '{'))
        return false;
    if (take_mark(parser, '}'))
        return true;
    do {
        if (!take_string(parser, &key) || cursor_left(key) > KEY_MAX || !take_mark(parser, ':') ||
            !member(parser, key, ctx))
            return false;
    } while (take_mark(parser, ','));
    return take_mark(parser, '}');
}

/* Takes "[item,...]". */
static bool take_items(struct recent_parser *parser, bool (*item)(struct recent_parser *))
{
    if (!take_mark(parser, '['))
        return false;
    if (take_mark(parser, ']'))
        return true;
    do
        if (!item(parser))
            return false;
    while (take_mark(parser, ','));
    return take_mark(parser, ']');
}

static bool take_count(struct recent_parser *parser, uint64_t *value)
{
    return cursor_take_decimal(&parser->text, value);
}

static bool take_signed(struct recent_parser *parser, int64_t *value)
{
    bool negative = take_mark(parser, '-');
    uint64_t number;

    if (!take_count(parser, &number) || number > INT64_MAX)
        return false;
    *value = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool take_bool(struct recent_parser *parser, bool *value)
{
    *value = cursor_take_text(&parser->text, "true");
    return *value || cursor_take_text(&parser->text, "false");
}

/* ---- names ---- */

/* Takes a name up to the next member, which follows it in all versions. */
static bool take_thread_name(struct recent_parser *parser, const char *next, const char **name)
{
    struct cursor rest = parser->text;
    size_t len;

    if (!cursor_take_char(&rest, '"'))
        return false;
    while (!cursor_begins(rest, next)) {
        if (rest.at == rest.end || rest.at - parser->text.at >= PRINTED_MAX)
            return false;
        rest.at++;
    }
    len = (size_t)(rest.at - parser->text.at) - 1;
    if (len && rest.at[-1] == '"')
        len--;
    *name = arena_string(&parser->list->names, parser->text.at + 1, len);
    parser->no_memory |= !*name;
    parser->text.at = rest.at;
    return *name != NULL;
}

/* ---- stacks ---- */

static bool take_frame(struct recent_parser *parser)
{
    struct recent_list *list = parser->list;
    struct cursor string, digits;
    uint64_t address;

    if (!take_string(parser, &string))
        return false;
    digits = string;
    if (!cursor_take_text(&digits, "0x") || !cursor_take_hex(&digits, &address) ||
        digits.at != digits.end)
        return false;
    if (list->frame_count >= TABLE_NONE ||
        !LIST_GROW(list->frames, list->frame_capacity, list->frame_count)) {
        parser->no_memory = true;
        return false;
    }
    list->frames[list->frame_count++] = address;
    return true;
}

static bool same_recent_stack(const void *ctx, uint32_t place, const void *key)
{
    const struct recent_list *list = ctx;
    const struct recent_stack *have = &list->stacks[place], *want = key;

    return have->depth == want->depth &&
           memcmp(&list->frames[have->first], &list->frames[want->first],
                  have->depth * sizeof *list->frames) == 0;
}

/* Replaces a stack that is in the list already by its first occurrence. */
static bool take_stack(struct recent_parser *parser, uint32_t *stack)
{
    struct recent_list *list = parser->list;
    struct recent_stack fresh = {.first = (uint32_t)list->frame_count};
    uint64_t hash;

    *stack = TABLE_NONE;
    if (!take_items(parser, take_frame))
        return false;
    fresh.depth = (uint32_t)list->frame_count - fresh.first;
    if (!fresh.depth)
        return true;
    hash = table_hash_bytes(&list->table, &list->frames[fresh.first],
                            fresh.depth * sizeof *list->frames);
    if (LIST_GROW(list->stacks, list->stack_capacity, list->stack_count))
        *stack = table_put(&list->table, hash, same_recent_stack, list, &fresh,
                           (uint32_t)list->stack_count);
    if (*stack == list->stack_count)
        list->stacks[list->stack_count++] = fresh;
    else
        list->frame_count = fresh.first;
    parser->no_memory |= *stack == TABLE_NONE;
    return *stack != TABLE_NONE;
}

/* ---- records ---- */

/* The members "alloc_*" or "dalloc_*", without that beginning. */
static bool take_event(struct recent_parser *parser, struct cursor key, struct recent_event *event,
                       const char *after_name)
{
    if (cursor_is(key, "thread_uid"))
        return take_count(parser, &event->thread.uid);
    if (cursor_is(key, "thread_name"))
        return take_thread_name(parser, after_name, &event->thread.name);
    if (cursor_is(key, "time"))
        return take_count(parser, &event->time_ns);
    if (cursor_is(key, "trace"))
        return take_stack(parser, &event->stack);
    return skip_value(parser, 0);
}

static bool take_record_member(struct recent_parser *parser, struct cursor key, void *ctx)
{
    struct recent_record *record = ctx;

    if (cursor_is(key, "size"))
        return take_count(parser, &record->size);
    if (cursor_is(key, "usize"))
        return take_count(parser, &record->usable);
    if (cursor_is(key, "released"))
        return take_bool(parser, &record->released);
    if (cursor_take_text(&key, "alloc_"))
        return take_event(parser, key, &record->allocation, ",\"alloc_time\":");
    if (!cursor_take_text(&key, "dalloc_"))
        return skip_value(parser, 0);
    record->has_release = true;
    return take_event(parser, key, &record->release, ",\"dalloc_time\":");
}

static bool take_record(struct recent_parser *parser)
{
    struct recent_list *list = parser->list;
    struct recent_record record = {.allocation.stack = TABLE_NONE, .release.stack = TABLE_NONE};

    if (list->count == RECORDS_MAX || !take_object(parser, take_record_member, &record))
        return false;
    record.has_release &= record.released && record.release.time_ns;
    if (!LIST_GROW(list->records, list->capacity, list->count)) {
        parser->no_memory = true;
        return false;
    }
    list->records[list->count++] = record;
    return true;
}

static bool take_list_member(struct recent_parser *parser, struct cursor key, void *ctx)
{
    struct recent_list *list = ctx;

    if (cursor_is(key, "sample_interval"))
        return take_count(parser, &list->period);
    if (cursor_is(key, "recent_alloc_max"))
        return take_signed(parser, &list->max);
    if (cursor_is(key, "recent_alloc"))
        return take_items(parser, take_record);
    return skip_value(parser, 0);
}

fault_code recent_list_parse(struct recent_list *list, const char *text, size_t len,
                             struct fault *fault)
{
    struct recent_parser parser = {.list = list, .text = cursor_of(text, len)};

    memset(list, 0, sizeof *list);
    table_init(&list->table);
    if (take_object(&parser, take_list_member, list)) {
        while (take_mark(&parser, '\n'))
            ;
        if (parser.text.at == parser.text.end)
            return FAULT_NONE;
    }
    if (parser.no_memory)
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read the list", "%zu records",
                         list->count);
    return fault_set(fault, FAULT_RECENT_TEXT, 0, "read the list", "byte %zu of %zu",
                     (size_t)(parser.text.at - text), len);
}

void recent_list_free(struct recent_list *list)
{
    free(list->records);
    free(list->stacks);
    free(list->frames);
    table_free(&list->table);
    arena_free(&list->names);
    memset(list, 0, sizeof *list);
}
