#include "profile/view.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *name;
    double bytes;
} units[] = {
    [UNIT_BYTES] = {"B", 1},
    [UNIT_KIB] = {"KiB", 1024},
    [UNIT_MIB] = {"MiB", 1024 * 1024},
    [UNIT_GIB] = {"GiB", 1024 * 1024 * 1024},
};

static enum unit fitting_unit(double bytes)
{
    enum unit unit = UNIT_GIB;

    while (unit > UNIT_BYTES && fabs(bytes) < units[unit].bytes)
        unit--;
    return unit;
}

const char *view_bytes(const struct view *view, double bytes, char out[VIEW_NUMBER_SIZE])
{
    enum unit unit = view->unit == UNIT_AUTO ? fitting_unit(bytes) : view->unit;

    if (view->unit == UNIT_BYTES)
        snprintf(out, VIEW_NUMBER_SIZE, "%.0f", bytes);
    else if (unit == UNIT_BYTES)
        snprintf(out, VIEW_NUMBER_SIZE, "%.0f B", bytes);
    else
        snprintf(out, VIEW_NUMBER_SIZE, "%.2f %s", bytes / units[unit].bytes, units[unit].name);
    return out;
}

const char *view_number(const struct view *view, double number, char out[VIEW_NUMBER_SIZE])
{
    if (view_is_bytes(view))
        return view_bytes(view, number, out);
    snprintf(out, VIEW_NUMBER_SIZE, "%.0f", number);
    return out;
}

bool view_is_bytes(const struct view *view)
{
    return view->value == VALUE_BYTES || view->value == VALUE_TOTAL_BYTES;
}

enum value view_objects(const struct view *view)
{
    bool total = view->value == VALUE_TOTAL_BYTES || view->value == VALUE_TOTAL_OBJECTS;
    return total ? VALUE_TOTAL_OBJECTS : VALUE_OBJECTS;
}

double view_percent(double part, double whole)
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
