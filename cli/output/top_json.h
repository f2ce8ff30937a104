/* One refresh of top as JSON. */
#pragma once

#include "cli/output/top_view.h"
#include "run/attachment.h"

struct top_json {
    const struct top_page *page;
    const struct attachment *attachment; /* its last hold */
    const char *profiling;               /* "active", "inactive", ... */
    size_t rows;                         /* sites at most; 0: all */
};

/* One object on one line. False: out of memory; errors of out are the caller's to check. */
bool top_json_write(const struct top_json *top, FILE *out);
