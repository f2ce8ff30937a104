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

static struct exposition_metric *find_metric(const struct exposition *exposition, const char *name,
                                             size_t len)
{
    for (size_t i = 0; i < exposition->count; i++)
        if (strncmp(exposition->list[i].name, name, len) == 0 && !exposition->list[i].name[len])
            return &exposition->list[i];
    return NULL;
}

static struct exposition_metric *add_metric(struct exposition *exposition, const char *name,
                                            size_t len)
{
    struct exposition_metric *list =
        reallocarray(exposition->list, exposition->count + 1, sizeof *list);

    if (!list)
        return NULL;
    exposition->list = list;
    list += exposition->count;
    *list = (struct exposition_metric){.name = strndup(name, len)};
    if (!list->name)
        return NULL;
    exposition->count++;
    return list;
}

static bool append_line(struct exposition_metric *metric, const char *line, size_t len)
{
    char *text = realloc(metric->text, metric->len + len);

    if (!text)
        return false;
    memcpy(text + metric->len, line, len);
    metric->text = text;
    metric->len += len;
    return true;
}

/* The comments of a metric are the same for all processes, and come before their samples. */
static bool add_exposition_line(struct exposition *exposition, const char *line, size_t len,
                                size_t known)
{
    size_t name_len;
    const char *name = name_of_line(line, len, &name_len);
    struct exposition_metric *metric = find_metric(exposition, name, name_len);

    if (metric && line[0] == '#' && (size_t)(metric - exposition->list) < known)
        return true;
    if (!metric)
        metric = add_metric(exposition, name, name_len);
    return metric && append_line(metric, line, len);
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
