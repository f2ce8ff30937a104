#include "cli/output/sparkline.h"
#include "base/util.h"

#include <string.h>

enum { HEIGHTS = 8 };

static const char *const bars[HEIGHTS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const ascii[HEIGHTS] = {"_", "_", ".", ".", "-", "=", "#", "#"};

static const double RANGE_LEAST = 0.02; /* of the largest value, for the whole height */

/* The mean of those that are known; 0: none is. */
static double mean_of(const uint64_t *values, size_t count)
{
    double sum = 0;
    size_t known = 0;

    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
        known += values[i] != 0;
    }
    return known ? sum / (double)known : 0;
}

const char *sparkline(const uint64_t *values, size_t count, size_t columns, bool utf8,
                      char out[SPARKLINE_TEXT])
{
    const char *const *drawn = utf8 ? bars : ascii;
    double means[SPARKLINE_COLUMNS], least = 0, most = 0, range;

    if (columns > SPARKLINE_COLUMNS)
        columns = SPARKLINE_COLUMNS;
    if (columns > count)
        columns = count;
    for (size_t i = 0; i < columns; i++) {
        const size_t from = i * count / columns, to = (i + 1) * count / columns;
        means[i] = mean_of(values + from, to - from);
        if (means[i] > 0 && (least == 0 || means[i] < least))
            least = means[i];
        most = means[i] > most ? means[i] : most;
    }
    range = most - least > RANGE_LEAST * most ? most - least : RANGE_LEAST * most;
    out[0] = '\0';
    for (size_t i = 0; i < columns; i++) {
        const size_t height =
            range > 0 ? (size_t)((means[i] - least) / range * (HEIGHTS - 1) + 0.5) : 0;
        strcat(out, means[i] > 0 ? drawn[height] : " ");
    }
    return out;
}
