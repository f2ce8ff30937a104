#include "cli/filename_text.h"

const char *filename_flaw_text(enum filename_flaw flaw)
{
    static const char *const texts[] = {
        [FILENAME_EMPTY] = "the file name is empty",
        [FILENAME_TOO_LONG] = "the file name is too long",
        [FILENAME_DIRECTIVE] =
            "unknown directive in the file name: must be one of %n, %p, %P, %t, %r, %h, %%",
        [FILENAME_VARIES] = "%t and %r are valid only in the file name, not in its directory",
    };

    return texts[flaw];
}
