#include "profile/views/amount_columns.h"

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

static void write_growth(const struct display *display, const struct amount_columns *columns,
                         FILE *out)
{
    char growth[DISPLAY_CHANGE_SIZE], error[DISPLAY_NUMBER_SIZE], objects[24] = "-";
    int64_t more = amount_growth(columns->objects);

    display_change(display, (double)amount_growth(columns->amount), growth);
    if (more)
        snprintf(objects, sizeof objects, "%+lld", (long long)more);
    fprintf(out, "%10s %10s %9s %c ", growth, display_number(display, columns->error, error),
            objects, columns->within ? '~' : ' ');
}

void amount_columns_write(const struct samples *samples, const struct display *display,
                          const struct amount_columns *columns, FILE *out)
{
    double now = (double)columns->amount->now;
    char text[DISPLAY_NUMBER_SIZE];

    if (samples->compares)
        write_growth(display, columns, out);
    else
        fprintf(out, "%9s %6.1f%% %10lld  ", display_number(display, now, text),
                display_percent(now, (double)columns->whole->now),
                (long long)columns->objects->now);
}
