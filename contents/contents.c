#include "contents/contents.h"

const char *content_kind_name(enum content_kind kind)
{
    static const char *const names[CONTENT_KINDS] = {
        [CONTENT_CLASS] = "class",       [CONTENT_TYPE] = "type",
        [CONTENT_TEXT] = "text",         [CONTENT_ZEROS] = "zeros",
        [CONTENT_POINTERS] = "pointers", [CONTENT_NUMBERS] = "numbers",
        [CONTENT_RANDOM] = "random",     [CONTENT_OTHER] = "other",
    };

    return names[kind];
}
