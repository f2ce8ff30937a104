#include "jemalloc/reader/birth.h"
#include "host/namespaces.h"

#include <string.h>

enum {
    ARENA_WORDS = 32 << 10, /* more than in any arena_t before its bins' data */
    PART_WORDS = 512,       /* read at once */
    OTHERS_MAX = 16,        /* arenas that are compared with arena 0 */
    TIMES_MAX = 4096,       /* words in the window that are looked at */
    SLACK_NS = 20000000,    /* clock ticks, the coarse clock */
};

#define SECOND_NS 1000000000u

/* The words of arena_t around its creation. */
struct birth_words {
    remote_addr base;
    uint64_t created;
};

/* The times that are possible. */
struct birth_window {
    uint64_t low, high;
};

bool birth_uptime(remote_addr record, const struct getters *getters, struct memory *memory,
                  uint64_t *uptime)
{
    remote_addr astats;

    return getters->uptime &&
           memory_read(memory, record + CTL_ARENA_ASTATS, &astats, sizeof astats) && astats &&
           memory_read(memory, astats + (remote_addr)getters->uptime, uptime, sizeof *uptime);
}

/* stat.start is in clock ticks since the boot, with the time that the machine was suspended. */
uint64_t birth_uptime_limit(const struct target *target)
{
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK), start = target->stat.start;
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    start = start / ticks * SECOND_NS + start % ticks * (SECOND_NS / ticks);
    uint64_t time = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
    return time > start ? time - start : 0;
}

static bool find_window(const struct birth_question *question, struct birth_window *window)
{
    uint64_t now = clock_now(), age = birth_uptime_limit(question->source->target) + SLACK_NS;

    if (question->uptime > now)
        return false;
    *window = (struct birth_window){now > age ? now - age : 1, now - question->uptime};
    return window->low <= window->high;
}

static bool is_in_window(const struct birth_words *words, const struct birth_window *window)
{
    return words->created >= window->low && words->created <= window->high;
}

/* True if the words are a base with that number, and a time that is no address. */
static bool words_valid(const struct birth_question *question, const struct birth_words *words,
                        uint32_t number)
{
    struct memory *memory = question->source->memory;
    uint32_t index;
    unsigned char byte;

    return words->base && words->base % 8 == 0 &&
           memory_read(memory, words->base, &index, sizeof index) && index == number &&
           !memory_read(memory, words->created, &byte, 1);
}

/* --- the array of arenas --- */

/* Reads the first pointers of the array; false if that cannot be it. */
static bool read_arenas(const struct birth_question *question, remote_addr array,
                        remote_addr list[OTHERS_MAX])
{
    size_t count = question->count < OTHERS_MAX ? question->count : OTHERS_MAX;

    memset(list, 0, OTHERS_MAX * sizeof *list);
    if (!memory_read(question->source->memory, array, list, count * sizeof *list) || !list[0])
        return false;
    for (size_t i = 0; i < count; i++)
        if (list[i] % 16)
            return false;
    return true;
}

/* True if each other arena has the same form at that offset, with its own number. */
static bool others_agree(const struct birth_question *question, const remote_addr list[OTHERS_MAX],
                         remote_addr offset, const struct birth_window *window)
{
    const struct birth_window later = {window->low, clock_now()};

    for (size_t i = 1; i < OTHERS_MAX; i++) {
        struct birth_words words;
        if (!list[i])
            continue;
        if (!memory_read(question->source->memory, list[i] + offset, &words, sizeof words) ||
            !is_in_window(&words, &later) || !words_valid(question, &words, (uint32_t)i))
            return false;
    }
    return true;
}

/* --- the search --- */

struct birth_search {
    const struct birth_question *question;
    struct birth_window window;
    remote_addr list[OTHERS_MAX];
    uint64_t created; /* 0: none yet */
    unsigned times;   /* words in the window so far */
    bool ambiguous;
};

/* Two different times are ambiguous; the same one twice is not. */
static void add_birth(struct birth_search *search, uint64_t created)
{
    uint64_t apart =
        search->created > created ? search->created - created : created - search->created;

    if (search->created && apart > SLACK_NS)
        search->ambiguous = true;
    search->created = created;
}

static void search_part(struct birth_search *search, remote_addr offset, const uint64_t *words,
                        size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        const struct birth_words pair = {words[i], words[i + 1]};
        if (!is_in_window(&pair, &search->window))
            continue;
        if (++search->times > TIMES_MAX) {
            search->ambiguous = true;
            return;
        }
        if (words_valid(search->question, &pair, 0) &&
            others_agree(search->question, search->list, offset + 8 * i, &search->window))
            add_birth(search, pair.created);
    }
}

/* Searches arena 0, as far as its memory can be read. */
static void search_arena(struct birth_search *search)
{
    struct memory *memory = search->question->source->memory;
    uint64_t words[PART_WORDS];

    for (size_t at = 0; at < ARENA_WORDS && !search->ambiguous; at += PART_WORDS - 1) {
        if (!memory_read(memory, search->list[0] + 8 * at, words, sizeof words))
            return;
        search_part(search, 8 * at, words, PART_WORDS);
    }
}

uint64_t birth_find(const struct birth_question *question)
{
    const struct target *target = question->source->target;
    struct birth_search search = {.question = question};

    /* Its CLOCK_MONOTONIC may differ from the tool's. */
    if (!namespaces_share_clock(target->proc, target_via(target)) ||
        !find_window(question, &search.window))
        return 0;
    for (size_t i = 0; i < question->arenas->count && !search.created && !search.ambiguous; i++)
        if (read_arenas(question, question->arenas->list[i], search.list))
            search_arena(&search);
    return search.ambiguous ? 0 : search.created;
}
