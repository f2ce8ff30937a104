/*
 * Sorting of many words in ascending order, in a time linear in their number whatever they are: by
 * one byte after the other, those that differ.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* scratch has space for as many. */
void sort_words(uint64_t *words, uint64_t *scratch, size_t count);

/*
 * Sorts pairs of two words by the first; those with the same first word keep their order. count is
 * the number of pairs; scratch has space for as many.
 */
void sort_pairs(uint64_t *pairs, uint64_t *scratch, size_t count);
