#include "cli/output/lines.h"

static void step_in_string(struct json_lines *lines, char ch)
{
    if (lines->escaped)
        lines->escaped = false;
    else if (ch == '\\')
        lines->escaped = true;
    else if (ch == '"')
        lines->text = false;
}

void json_lines_join(struct json_lines *lines, char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (lines->text)
            step_in_string(lines, bytes[i]);
        else if (bytes[i] == '"')
            lines->text = true;
        else if (bytes[i] == '{' || bytes[i] == '[')
            lines->depth++;
        else if ((bytes[i] == '}' || bytes[i] == ']') && lines->depth)
            lines->depth--;
        else if (lines->depth && (bytes[i] == '\n' || bytes[i] == '\t'))
            bytes[i] = ' ';
    }
}
