#include "run/format.h"
#include "base/text.h"
#include "base/util.h"
#include "run/outfile.h"

#include <string.h>

static const struct {
    const char *name, *extension;
    bool binary;
} formats[] = {
    [FORMAT_RAW] = {"raw", ".heap", false},
    [FORMAT_SYMBOLIZED] = {"symbolized", ".symbolized", false},
    [FORMAT_TEXT] = {"text", ".txt", false},
    [FORMAT_TREE] = {"tree", ".tree", false},
    [FORMAT_FOLDED] = {"folded", ".folded", false},
    [FORMAT_PPROF] = {"pprof", ".pb.gz", true},
    [FORMAT_FLAME] = {"flame", ".html", false},
    [FORMAT_DOT] = {"dot", ".dot", false},
    [FORMAT_SVG] = {"svg", ".svg", false},
    [FORMAT_JSON] = {"json", ".json", false},
};

const char *format_extension(enum format format)
{
    return formats[format].extension;
}

bool format_is_binary(enum format format)
{
    return formats[format].binary;
}

bool format_is_unchanged(enum format format)
{
    return format == FORMAT_RAW || format == FORMAT_SYMBOLIZED;
}

/* Other words for a format, besides its extension without the dot. */
static const struct {
    const char *name;
    enum format format;
} synonyms[] = {
    {"flamegraph", FORMAT_FLAME},
    {"pb", FORMAT_PPROF},
    {"collapsed", FORMAT_FOLDED},
};

const char *format_name(enum format format)
{
    return formats[format].name;
}

bool format_find(const char *name, enum format *format)
{
    for (*format = FORMAT_RAW; *format < FORMAT_COUNT; (*format)++)
        if (strcmp(name, formats[*format].name) == 0 ||
            strcmp(name, formats[*format].extension + 1) == 0)
            return true;
    for (size_t i = 0; i < ARRAY_LEN(synonyms); i++) {
        *format = synonyms[i].format;
        if (strcmp(name, synonyms[i].name) == 0)
            return true;
    }
    return false;
}

bool format_of_path(const char *path, enum format *format)
{
    for (*format = FORMAT_RAW; *format < FORMAT_COUNT; (*format)++)
        if (text_ends_with(path, formats[*format].extension))
            return true;
    return false;
}

const char *format_foreign_extension(const char *path)
{
    enum format format;
    const char *dot = strrchr(text_base_name(path), '.');

    if (!dot || dot == text_base_name(path) || format_of_path(path, &format))
        return NULL;
    if (!strpbrk(dot, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") || strchr(dot, '%'))
        return NULL;
    return outfile_is_irregular(path) ? NULL : dot;
}
