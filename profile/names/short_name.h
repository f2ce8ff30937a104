/*
 * Shortens names of functions: drops parameters, template arguments and return types for narrow
 * columns, and what is beyond any column.
 */
#pragma once

#include <stddef.h>

/*
 * "std::vector<int>::push_back(int const&)" becomes "std::vector::push_back";
 * Rust's "<alloc::Vec<T> as Extend<T>>::extend" becomes "alloc::Vec::extend".
 * Other names, and names that would become empty, are copied unchanged. Writes
 * at most size - 1 bytes. Returns out.
 */
const char *short_name(const char *name, char *out, size_t size);

enum { NAME_MAX_SHOWN = 1024 };

/*
 * Returns the name as the tool keeps and prints it: of one that is longer than NAME_MAX_SHOWN
 * bytes the short name, or if that is too long as well its beginning and an ellipsis, in out.
 * Functions whose names become equal so are counted as one.
 */
const char *bounded_name(const char *name, char out[NAME_MAX_SHOWN + 1]);
