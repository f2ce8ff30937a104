#include "profile/views/display.h"

#include <stdio.h>

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
