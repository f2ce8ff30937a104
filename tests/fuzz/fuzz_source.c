/* Files of source code: lines that cover the text, and nothing in them that acts on a terminal. */
#include "fuzz.h"
#include "profile/symbols/source_file.h"

#include <stdlib.h>
#include <string.h>

static void check_line(const struct source_file *source, size_t number)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    expect(out);
    source_file_write_line(source, number, out);
    expect(fclose(out) == 0);
    for (size_t i = 0; i < len; i++)
        expect((unsigned char)text[i] >= 0x20 || text[i] == '\t');
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source_file source = {0};
    char *text = malloc(size + 1);

    expect(text);
    memcpy(text, data, size);
    expect(source_file_split(&source, text, size) == 0);
    expect(source.lines[0] == 0 && source.lines[source.line_count] == size);
    for (size_t i = 1; i <= source.line_count; i++) {
        expect(source.lines[i] > source.lines[i - 1]);
        check_line(&source, i);
    }
    source_file_free(&source);
    return 0;
}
