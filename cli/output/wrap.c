#include "cli/output/wrap.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_LEAST = 40, COLUMNS_OF_NONE = 80, WORDS_LEAST = 20 };

size_t wrap_columns(void)
{
    struct winsize size = {.ws_col = 0};

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
        return COLUMNS_OF_NONE;
    return size.ws_col < COLUMNS_LEAST ? COLUMNS_LEAST : size.ws_col;
}

FILE *wrap_begin(struct wrap *wrap, FILE *out)
{
    *wrap = (struct wrap){.text = NULL};
    wrap->stream = open_memstream(&wrap->text, &wrap->len);
    return wrap->stream ? wrap->stream : out;
}

void wrap_end(struct wrap *wrap, size_t indent, FILE *out)
{
    if (!wrap->stream)
        return;
    if (fclose(wrap->stream) == 0)
        wrap_print(wrap->text, isatty(STDOUT_FILENO) ? wrap_columns() : SIZE_MAX, indent, out);
    free(wrap->text);
}

/* Returns how much of a line fits, at the end of a word; at least one word. */
static size_t fitting_len(const char *text, size_t len, size_t columns)
{
    size_t fits = columns;

    if (len <= columns)
        return len;
    /* A number stays with its unit. */
    while (fits > 0 && (text[fits] != ' ' || isdigit((unsigned char)text[fits - 1])))
        fits--;
    return fits ? fits : strcspn(text, " \n");
}

void wrap_print(const char *text, size_t columns, size_t indent, FILE *out)
{
    while (*text) {
        size_t len = strcspn(text, "\n"), margin = 0;
        do {
            size_t fits = fitting_len(text, len, columns - margin);
            size_t blanks = fits < len ? strspn(text + fits, " ") : 0;
            fprintf(out, "%*s%.*s\n", (int)margin, "", (int)fits, text);
            text += fits + blanks;
            len -= fits + blanks;
            margin = indent + WORDS_LEAST <= columns ? indent : 0;
        } while (len);
        text += *text == '\n';
    }
}
