#include "run/format.h"
#include "base/text.h"

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

bool format_find(const char *name, enum format *format)
{
    for (*format = FORMAT_RAW; *format < FORMAT_COUNT; (*format)++)
        if (strcmp(name, formats[*format].name) == 0)
            return true;
    return false;
}

bool format_of_path(const char *path, enum format *format)
{
    for (*format = FORMAT_RAW; *format < FORMAT_COUNT; (*format)++)
        if (text_ends_with(path, formats[*format].extension))
            return true;
    return false;
}
