#include "profile/tree.h"
#include "profile/stacks.h"

bool tree_write(const struct samples *samples, const struct display *display, FILE *out)
{
    return folded_write(samples, display, out);
}
