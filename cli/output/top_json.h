/* One refresh of top as JSON. */
#pragma once

#include "cli/output/top_view.h"
#include "run/attachment.h"

struct top_json {
    const struct top_page *page;
    const struct attachment *attachment; /* for its last stop */
    const char *profiling;               /* "active", "inactive", ... */
    size_t rows;                         /* maximum number of sites; 0: all */
};

/* Writes one object in one line. False: out of memory. The caller checks errors of out. */
bool top_json_write(const struct top_json *top, FILE *out);
