/* What a child that reads symbols sends to the tool; the first byte chooses the question. */
#include "fuzz.h"
#include "profile/names/short_name.h"
#include "profile/symbols/reader.h"

#include <string.h>

enum { DUE = 8, MODULES = 3, PIECE = 7 };

static void take_lines(void *ctx, size_t number, const struct symbol_line *lines, size_t count)
{
    (void)ctx;
    expect(number < DUE);
    for (size_t i = 0; i < count; i++) {
        expect(lines[i].function && lines[i].linkage &&
               strlen(lines[i].function) <= NAME_MAX_SHOWN);
        expect(!lines[i].file || strlen(lines[i].file) <= NAME_MAX_SHOWN);
    }
}

static void take_name(void *ctx, size_t number, const char *name)
{
    (void)ctx;
    expect(number < DUE && (!name || strlen(name) <= NAME_MAX_SHOWN));
}

static void take_state(void *ctx, const struct channel_state *state, const char *split_path)
{
    (void)ctx;
    expect(state->module < MODULES && state->lack <= SYMBOLS_LACK_LIBRARY);
    expect(!split_path || strlen(split_path) < CHANNEL_MAX);
}

static int open_wanted(void *ctx, size_t module, const struct file_wanted *wanted)
{
    (void)ctx;
    expect(module < MODULES && wanted->id->len <= BUILD_ID_MAX);
    expect(!wanted->dir || strlen(wanted->dir) < CHANNEL_MAX);
    expect(!wanted->name || strlen(wanted->name) < CHANNEL_MAX);
    return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct reader_client clients[] = {
        {.lines = take_lines, .state = take_state, .opener = {open_wanted, NULL}},
        {.name = take_name},
    };
    const bool names = size && *data % 2;
    struct child_module modules[MODULES] = {{SYMBOLS_TRUST_ALL, true}};
    struct arena arena = {.chunks = NULL};
    struct reader reader = {.modules = modules,
                            .module_count = MODULES,
                            .client = &clients[names],
                            .arena = &arena,
                            .child.channel = -1};
    size_t answered = 0;
    struct exchange exchange = {.reader = &reader,
                                .asked = names ? CHANNEL_NAMES : CHANNEL_ADDRESSES,
                                .count = DUE,
                                .answered = &answered};

    for (size_t at = 1; at < size && !exchange.done; at += PIECE)
        if (!reader_hear(&exchange, data + at, size - at < PIECE ? size - at : PIECE))
            break;
    expect(answered <= DUE && (!exchange.done || answered == DUE));
    reader_end(&reader);
    arena_free(&arena);
    return 0;
}
