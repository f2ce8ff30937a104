/* Sorting of many words. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Sorts words in ascending order, in a time linear in their number whatever they are: by one byte
 * after the other, those that differ. scratch has space for as many.
 */
void sort_words(uint64_t *words, uint64_t *scratch, size_t count);
