/*
 * opt.prof_unbias, where the variable has no name: from the options that the
 * process was started with. It is no option of mallctl, and true by default.
 */
#pragma once

#include "jemalloc/build.h"
#include "jemalloc/reader/reader.h"

/* What one source of options sets it to, "prof:true,prof_unbias:false"; the last one counts. */
enum fact bias_option(const char *options);

/* What the sources that can be read set it to, in jemalloc's order; unknown: none does. */
enum fact bias_of_options(const struct reader_source *source);
