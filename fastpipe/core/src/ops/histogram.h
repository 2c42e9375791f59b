/* histogram.h: counts values, and makes the table that equalizes them. */
#ifndef FPC_HISTOGRAM_H
#define FPC_HISTOGRAM_H

#include <stdint.h>

/* Adds `count` pixels of 1 or 3 channels to `counts`. */
void fpc_count_values(const uint8_t *pixels, int64_t count, int channels, int64_t counts[3][256]);

/* The table of ImageOps.equalize, and of torchvision's equalize of tensors, for one channel's counts. */
void fpc_equalize_table(const int64_t *counts, uint8_t *table);

#endif
