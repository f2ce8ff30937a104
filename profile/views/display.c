#include "profile/views/display.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { UNREAD_PART = 100 }; /* less is left out without a word in the title */

static const struct {
    const char *name;
    double bytes;
} units[] = {
    [UNIT_KIB] = {"KiB", 1024},
    [UNIT_MIB] = {"MiB", 1024 * 1024},
    [UNIT_GIB] = {"GiB", 1024 * 1024 * 1024},
};

const char *display_bytes(const struct display *display, double bytes,
                          char out[DISPLAY_NUMBER_SIZE])
{
    enum unit unit = display->unit;

    if (unit == UNIT_AUTO)
        return units_bytes(bytes, out);
    if (unit == UNIT_BYTES)
        snprintf(out, DISPLAY_NUMBER_SIZE, "%.0f", bytes);
    else
        snprintf(out, DISPLAY_NUMBER_SIZE, "%.2f %s", bytes / units[unit].bytes, units[unit].name);
    return out;
}

const char *display_doubt_name(enum display_doubt doubt)
{
    static const char *const names[] = {
        [DOUBT_NONE] = NULL,           [DOUBT_CUT] = "cut",     [DOUBT_MAPS_CUT] = "maps_cut",
        [DOUBT_MAPPED] = "other_file", [DOUBT_INODE] = "inode", [DOUBT_CHANGED] = "changed",
    };

    return names[doubt];
}

/* Cleans nothing: the views do, each in its way. */
const char *display_title(const struct display *display, char out[DISPLAY_TITLE_SIZE])
{
    const char *title = display->title ? display->title : "heap profile";
    char files[384];
    size_t len;

    snprintf(files, sizeof files, "%.300s",
             display->doubted ? text_base_name(display->doubted) : "");
    if (display->more_doubted)
        snprintf(files + strlen(files), sizeof files - strlen(files), " and %zu more files",
                 display->more_doubted);
    switch (display->doubt) {
    case DOUBT_CUT:
        snprintf(out, DISPLAY_TITLE_SIZE,
                 "%s: no MAPPED_LIBRARIES, so it may be cut off: stacks may be missing", title);
        break;
    case DOUBT_MAPS_CUT:
        snprintf(out, DISPLAY_TITLE_SIZE, "%s: cut off in MAPPED_LIBRARIES: names are missing",
                 title);
        break;
    case DOUBT_MAPPED:
        snprintf(out, DISPLAY_TITLE_SIZE, "%s: no names of %s: replaced since (build-id)", title,
                 files);
        break;
    case DOUBT_INODE:
        snprintf(out, DISPLAY_TITLE_SIZE,
                 "%s: names of %s may be wrong: replaced or copied (inode)", title, files);
        break;
    case DOUBT_CHANGED:
        snprintf(out, DISPLAY_TITLE_SIZE, "%s: names of %s may be wrong: changed since", title,
                 files);
        break;
    default:
        snprintf(out, DISPLAY_TITLE_SIZE, "%s", title);
        break;
    }
    len = strlen(out);
    if (display->unread_stacks > display->read_stacks / UNREAD_PART)
        len +=
            (size_t)snprintf(out + len, DISPLAY_TITLE_SIZE - len,
                             "; %llu of %llu stacks could not be read and are left out",
                             (unsigned long long)display->unread_stacks,
                             (unsigned long long)(display->unread_stacks + display->read_stacks));
    if (display->odd_lines > display->lines_read / UNREAD_PART)
        snprintf(out + len, DISPLAY_TITLE_SIZE - len,
                 "; %zu lines have an unknown form and are ignored", display->odd_lines);
    return out;
}

const char *display_number(const struct display *display, double number,
                           char out[DISPLAY_NUMBER_SIZE])
{
    if (display_is_bytes(display))
        return display_bytes(display, number, out);
    snprintf(out, DISPLAY_NUMBER_SIZE, "%.0f", number);
    return out;
}

static const char *prefix_sign(double number, const char *text, char out[DISPLAY_CHANGE_SIZE])
{
    snprintf(out, DISPLAY_CHANGE_SIZE, "%s%s", number > 0 ? "+" : "", text);
    return out;
}

const char *display_change(const struct display *display, double number,
                           char out[DISPLAY_CHANGE_SIZE])
{
    char text[DISPLAY_NUMBER_SIZE];
    return prefix_sign(number, display_number(display, number, text), out);
}

const char *display_bytes_change(const struct display *display, double bytes,
                                 char out[DISPLAY_CHANGE_SIZE])
{
    char text[DISPLAY_NUMBER_SIZE];
    return prefix_sign(bytes, display_bytes(display, bytes, text), out);
}

bool display_is_bytes(const struct display *display)
{
    return display->value == VALUE_BYTES || display->value == VALUE_TOTAL_BYTES;
}

enum value display_objects(const struct display *display)
{
    bool total = display->value == VALUE_TOTAL_BYTES || display->value == VALUE_TOTAL_OBJECTS;
    return total ? VALUE_TOTAL_OBJECTS : VALUE_OBJECTS;
}

double display_percent(double part, double whole)
{
    return whole != 0 ? 100 * part / whole : 0;
}

const char *value_name(enum value value)
{
    static const char *const names[] = {
        [VALUE_TOTAL_OBJECTS] = "alloc_objects",
        [VALUE_TOTAL_BYTES] = "alloc_space",
        [VALUE_OBJECTS] = "inuse_objects",
        [VALUE_BYTES] = "inuse_space",
    };

    return names[value];
}

enum { AMOUNTS_WIDTH = 30, GROWTH_WIDTH = 34 };

size_t amount_columns_width(const struct samples *samples)
{
    return samples->compares ? GROWTH_WIDTH : AMOUNTS_WIDTH;
}

void amount_columns_head(const struct samples *samples, const struct display *display,
                         const char *rest, FILE *out)
{
    if (samples->compares)
        fprintf(out, "%10s %10s %9s   %s (~: within the error)\n", "growth", "error", "objects",
                rest);
    else
        fprintf(out, "%9s %7s %10s  %s\n", display_is_bytes(display) ? "bytes" : "", "share",
                "objects", rest);
}

void amount_columns_write(const struct samples *samples, const struct display *display,
                          const struct amount_columns *columns, FILE *out)
{
    double now = (double)columns->amount->now;
    char text[DISPLAY_NUMBER_SIZE];

    if (samples->compares) {
        char growth[DISPLAY_CHANGE_SIZE], error[DISPLAY_NUMBER_SIZE], objects[24] = "-";
        int64_t more = amount_growth(columns->objects);
        display_change(display, (double)amount_growth(columns->amount), growth);
        if (more)
            snprintf(objects, sizeof objects, "%+lld", (long long)more);
        fprintf(out, "%10s %10s %9s %c ", growth, display_number(display, columns->error, error),
                objects, columns->within ? '~' : ' ');
    } else {
        fprintf(out, "%9s %6.1f%% %10lld  ", display_number(display, now, text),
                display_percent(now, (double)columns->whole->now),
                (long long)columns->objects->now);
    }
}
