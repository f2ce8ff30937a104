#include "contents/contents.h"
#include "contents/entropy.h"
#include "contents/text_form.h"
#include "contents/words.h"

#include <string.h>

enum { WORDS_MAX = CONTENT_FIRST / 8 };

struct contents {
    struct arena arena;
    struct places places;
    struct content_words words;
};

struct contents *contents_new(struct memory *memory, const struct modules *modules,
                              const struct target *target)
{
    struct contents *contents = calloc(1, sizeof *contents);

    if (!contents || !places_init(&contents->places, memory, modules)) {
        free(contents);
        return NULL;
    }
    words_init(&contents->words, &contents->places, target, &contents->arena);
    return contents;
}

void contents_free(struct contents *contents)
{
    if (!contents)
        return;
    words_free(&contents->words);
    places_free(&contents->places);
    arena_free(&contents->arena);
    free(contents);
}

const char *content_kind_name(enum content_kind kind)
{
    static const char *const names[CONTENT_KINDS] = {
        [CONTENT_CLASS] = "class",   [CONTENT_TYPE] = "type",         [CONTENT_TEXT] = "text",
        [CONTENT_ZEROS] = "zeros",   [CONTENT_POINTERS] = "pointers", [CONTENT_NUMBERS] = "numbers",
        [CONTENT_RANDOM] = "random", [CONTENT_OTHER] = "other",
    };

    return names[kind];
}

/* ---- words ---- */

struct seen_words {
    uint64_t words[WORDS_MAX];
    int places[WORDS_MAX];
    size_t count;
    size_t zeros, numbers, pointers, in_modules; /* pointers: in_modules included */
    int module;                                  /* of the last of these */
};

static bool is_small_half(uint32_t half)
{
    return half < 1 << 24 || half > UINT32_MAX - (1 << 24);
}

static bool is_small_number(uint64_t word)
{
    return word < UINT64_C(1) << 40 || word > UINT64_MAX - (1 << 24) ||
           (is_small_half((uint32_t)word) && is_small_half((uint32_t)(word >> 32)));
}

static char letter_of(uint64_t word, int place)
{
    if (!word)
        return '0';
    if (place >= 0)
        return 'm';
    if (place == PLACE_MEMORY)
        return 'p';
    return is_small_number(word) ? 'n' : 'x';
}

static void count_word(struct seen_words *seen, uint64_t word, int place)
{
    char letter = letter_of(word, place);

    seen->zeros += letter == '0';
    seen->numbers += letter == 'n';
    seen->in_modules += letter == 'm';
    seen->pointers += letter == 'p' || letter == 'm';
    if (letter == 'm')
        seen->module = place;
    seen->words[seen->count] = word;
    seen->places[seen->count++] = place;
}

static void see_words(struct contents *contents, const unsigned char *bytes, size_t len,
                      struct seen_words *seen)
{
    uint64_t word;

    *seen = (struct seen_words){.count = 0};
    for (size_t i = 0; i + sizeof word <= len && seen->count < WORDS_MAX; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        count_word(seen, word, places_at(&contents->places, word));
    }
}

static void take_shape(const struct seen_words *seen, struct content *content)
{
    size_t n = seen->count < CONTENT_SHAPE ? seen->count : CONTENT_SHAPE;

    for (size_t i = 0; i < n; i++)
        content->shape[i] = letter_of(seen->words[i], seen->places[i]);
}

/* ---- kinds ---- */

static bool are_zeros(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/*
 * The address of a vtable at the start; or behind a number, such as the count in front of an
 * array with destructors (Itanium C++ ABI, 2.7) or a header of the program's own allocator.
 */
static bool judge_class(struct contents *contents, const struct seen_words *seen,
                        struct content *content)
{
    for (size_t i = 0; i < seen->count && i <= 2; i++) {
        if (seen->places[i] >= 0) {
            uint32_t index = words_put(&contents->words, seen->words[i], seen->places[i]);
            if (index != TABLE_NONE && contents->words.list[index].class_name) {
                content->kind = CONTENT_CLASS;
                content->detail = contents->words.list[index].class_name;
                content->at = (uint8_t)(i * 8);
                return true;
            }
            return false;
        }
        if (seen->places[i] == PLACE_MEMORY || !is_small_number(seen->words[i]))
            return false;
    }
    return false;
}

static bool judge_type(struct contents *contents, const struct seen_words *seen,
                       struct content *content)
{
    uint32_t index;

    if (!seen->count || seen->places[0] < 0)
        return false;
    content->kind = CONTENT_TYPE;
    content->detail = words_module_name(&contents->words, seen->places[0]);
    index = words_put(&contents->words, seen->words[0], seen->places[0]);
    if (index == TABLE_NONE)
        return true;
    contents->words.list[index].begins = true;
    content->word = index;
    return true;
}

/* Some random bytes are letters. */
static bool is_chance(const struct text_place *place, const unsigned char *bytes, size_t len)
{
    return place->len < len / 4 && entropy_is_high(bytes, len);
}

static bool judge_text(const unsigned char *bytes, size_t len, remote_addr addr,
                       struct content *content)
{
    struct text_place place;

    if (!text_find(bytes, len, addr, &place) || is_chance(&place, bytes, len))
        return false;
    content->kind = CONTENT_TEXT;
    content->detail = text_form((const char *)bytes + place.at, place.len);
    content->at = (uint8_t)place.at;
    content->text_len = (uint16_t)place.len;
    return true;
}

static bool judge_format(const unsigned char *bytes, size_t len, struct content *content)
{
    const char *format = entropy_format(bytes, len);

    if (!format)
        return false;
    content->kind = CONTENT_RANDOM;
    content->detail = format;
    return true;
}

static bool judge_numbers(struct contents *contents, const struct seen_words *seen,
                          struct content *content)
{
    size_t used = seen->count - seen->zeros;

    if (seen->pointers && seen->pointers * 2 >= used) {
        content->kind = CONTENT_POINTERS;
        content->detail = seen->in_modules * 2 > seen->pointers
                              ? words_module_name(&contents->words, seen->module)
                              : "heap";
        return true;
    }
    if (!used || seen->numbers * 4 < used * 3)
        return false;
    content->kind = CONTENT_NUMBERS;
    return true;
}

static void judge_piece(struct contents *contents, remote_addr addr, const unsigned char *bytes,
                        size_t len, struct content *content)
{
    struct seen_words seen;

    if (are_zeros(bytes, len)) {
        content->kind = CONTENT_ZEROS;
        return;
    }
    see_words(contents, bytes, len, &seen);
    take_shape(&seen, content);
    if (judge_class(contents, &seen, content) || judge_type(contents, &seen, content) ||
        judge_format(bytes, len, content))
        return;
    if ((!seen.count || seen.places[0] != PLACE_MEMORY || len > 16) &&
        judge_text(bytes, len, addr, content))
        return;
    if (!judge_numbers(contents, &seen, content))
        content->kind = entropy_is_high(bytes, len) ? CONTENT_RANDOM : CONTENT_OTHER;
}

/* A large buffer may begin with a header, or with bytes that were never written. */
static bool is_weak(enum content_kind kind)
{
    return kind == CONTENT_ZEROS || kind == CONTENT_OTHER || kind == CONTENT_NUMBERS;
}

/* The object does not begin with what its second piece begins with. */
static void take_second_piece(struct content *content, const struct content *second)
{
    bool begins = second->kind == CONTENT_CLASS || second->kind == CONTENT_TYPE;

    if (second->kind != CONTENT_TEXT && second->kind != CONTENT_RANDOM &&
        (content->kind != CONTENT_ZEROS || second->kind == CONTENT_ZEROS))
        return;
    content->kind = begins ? CONTENT_OTHER : second->kind;
    content->detail = begins ? NULL : second->detail;
}

struct content contents_judge(struct contents *contents, const struct content_bytes *bytes)
{
    struct content content = {.kind = CONTENT_OTHER, .word = CONTENT_NO_WORD};
    struct content second = content;

    judge_piece(contents, bytes->addr, bytes->first,
                bytes->first_len < CONTENT_FIRST ? bytes->first_len : CONTENT_FIRST, &content);
    if (!bytes->second_len || !is_weak(content.kind))
        return content;
    judge_piece(contents, 0, bytes->second,
                bytes->second_len < CONTENT_SECOND ? bytes->second_len : CONTENT_SECOND, &second);
    take_second_piece(&content, &second);
    return content;
}

/* ---- after all ---- */

bool contents_resolve(struct contents *contents)
{
    return words_resolve(&contents->words);
}

void contents_settle(struct contents *contents, struct content *content)
{
    struct content_word *word;
    const char *text;

    if (content->word == CONTENT_NO_WORD)
        return;
    word = &contents->words.list[content->word];
    if (word->class_name) {
        content->kind = CONTENT_CLASS;
        content->detail = word->class_name;
        return;
    }
    text = words_text(&contents->words, word);
    if (text)
        content->detail = text;
}
