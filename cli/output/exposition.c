#include "cli/output/exposition.h"

#include <stdlib.h>
#include <string.h>

/* The name of a line: of "# HELP name ...", "# TYPE name ..." or "name{...} value". */
static const char *name_of_line(const char *line, size_t len, size_t *name_len)
{
    static const char comment[] = "# HELP ";
    size_t skip = len >= sizeof comment - 1 && line[0] == '#' ? sizeof comment - 1 : 0, end = skip;

    while (end < len && line[end] != ' ' && line[end] != '{')
        end++;
    *name_len = end - skip;
    return line + skip;
}

/* The comments of a metric are the same for all processes, and come before their samples. */
static bool add_exposition_line(struct exposition *exposition, const char *line, size_t len,
                                size_t known)
{
    size_t name_len, i = 0;
    const char *name = name_of_line(line, len, &name_len);
    struct exposition_metric *list = exposition->list;
    char *text;

    while (i < exposition->count &&
           (strncmp(list[i].name, name, name_len) != 0 || list[i].name[name_len]))
        i++;
    if (i < known && line[0] == '#')
        return true;
    if (i == exposition->count) {
        list = reallocarray(list, i + 1, sizeof *list);
        if (!list)
            return false;
        exposition->list = list;
        list[i] = (struct exposition_metric){.name = strndup(name, name_len)};
        if (!list[i].name)
            return false;
        exposition->count++;
    }
    text = realloc(list[i].text, list[i].len + len);
    if (!text)
        return false;
    memcpy(text + list[i].len, line, len);
    list[i].text = text;
    list[i].len += len;
    return true;
}

bool exposition_add(struct exposition *exposition, const char *text, size_t len)
{
    const size_t known = exposition->count;

    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) + 1 : len;
        if (end && !add_exposition_line(exposition, text, line, known))
            return false;
        text += line;
        len -= line;
    }
    return true;
}

void exposition_free(struct exposition *exposition)
{
    for (size_t i = 0; i < exposition->count; i++) {
        free(exposition->list[i].name);
        free(exposition->list[i].text);
    }
    free(exposition->list);
    *exposition = (struct exposition){0};
}
