/* What leak says of the samples of page faults that it lacks. */
#include "check.h"
#include "cli/output/grow_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a thousand samples so many were lost, and so many of the others have no stack. */
static bool says(uint64_t lost, uint64_t unwalked, const char *wanted)
{
    struct grow grow = {
        .pages.map.page = 4096, .sites.seen = 1000 - lost, .lack.lost = lost, .unwalked = unwalked};
    const struct grow_view view = {.grow = &grow};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!CHECK(out))
        return false;
    grow_write_parts(&view, out);
    fclose(out);
    const char *rest = strchr(text, '\n') + 1;
    const bool same = strcmp(rest, wanted) == 0;
    if (!same)
        fprintf(stderr, "  got: %s", rest);
    free(text);
    return same;
}

int main(void)
{
    CHECK(says(0, 0, ""));
    CHECK(says(10, 9, ""));
    CHECK(says(120, 0, "lost: 12 % of the page-fault samples: shares are of the others\n"));
    CHECK(says(0, 30,
               "stacks: 30 samples have none: to find more would take more than half of a CPU\n"));
    return check_result();
}
