/* One word or name: durations, pids, and the quoting of a target's names. */
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/message.h"
#include "cli/options.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

/* Between the quotes is no quote and no control character, and each escape is complete. */
static void check_json(const char *text)
{
    expect(text[0] == '"' && text[strlen(text) - 1] == '"');
    for (text++; text[1]; text++) {
        expect((unsigned char)*text >= 0x20 && *text != 0x7f && *text != '"');
        if (*text == '\\' && *++text == 'u')
            expect(strspn(text + 1, "0123456789abcdef") >= 4);
    }
}

static void print_json(const char *word)
{
    struct json json;
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);

    expect(stream != NULL);
    json_begin(&json, stream);
    json_text(&json, "", word);
    fclose(stream);
    expect(strncmp(out, "{\"\": ", 5) == 0);
    check_json(out + 5);
    free(out);
}

static size_t count_units(const char *text)
{
    size_t count = 0;
    bool shown;

    for (; *text; text += text_unit(text, &shown))
        count++;
    return count;
}

static void print_clean(const char *word)
{
    char out[64];
    bool shown;

    message_clean(word, out, sizeof out);
    expect(strlen(out) < sizeof out && strlen(out) <= strlen(word));
    for (const char *p = out; *p; p += text_unit(p, &shown))
        expect(text_unit(p, &shown) > 0 && shown);
    /* A name shorter than the capacity loses no character. */
    expect(strlen(out) + 4 >= sizeof out || count_units(out) == count_units(word));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *word = malloc(size + 1);
    uint64_t ns;
    pid_t pid;

    expect(word != NULL);
    memcpy(word, data, size);
    word[size] = '\0';
    if (units_parse_duration(word, &ns))
        expect(ns <= 24ull * 3600 * 1000000000);
    if (parse_pid(word, &pid))
        expect(pid > 0 && pid <= 4 << 20);
    print_json(word);
    print_clean(word);
    free(word);
    return 0;
}
