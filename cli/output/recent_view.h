/* The recent allocations of a process, as two tables or as JSON. */
#pragma once

#include "base/json.h"
#include "profile/views/display.h"
#include "run/recent_sites.h"

enum recent_order { RECENT_BY_AGE, RECENT_BY_SIZE, RECENT_BY_LIFETIME };

struct recent_view {
    const struct recent *recent;
    const struct recent_sites *sites;
    const struct samples *samples;
    enum recent_order order; /* of the second table: newest, largest, longest-lived first */
    size_t rows;             /* of each table; 0: all */
};

/* Prints the tables: the sites, then the records. False: out of memory. */
bool recent_print(const struct recent_view *view, FILE *out);
/* Adds the members about the list: all of it, whatever rows is. */
void recent_json(const struct recent_view *view, struct json *json);
