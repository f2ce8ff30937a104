/*
 * Shortens names of functions for narrow columns: drops parameters, template
 * arguments and return types.
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
