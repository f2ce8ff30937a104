/* Names of functions for narrow columns: without parameters, template arguments and return types.
 */
#pragma once

#include <stddef.h>

/*
 * "std::vector<int>::push_back(int const&)" is "std::vector::push_back"; Rust's
 * "<alloc::Vec<T> as Extend<T>>::extend" is "alloc::Vec::extend". What is no
 * such name, or would be empty, is copied whole. At most size - 1 bytes.
 * Returns out.
 */
const char *short_name(const char *name, char *out, size_t size);
