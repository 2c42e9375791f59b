/* source.h: the first stage of a chain: pixels in memory, or a decoder's rows. */
#ifndef FPC_SOURCE_H
#define FPC_SOURCE_H

#include "codecs.h"
#include "stage.h"

/* Adds a box of pixels in memory; the caller has checked that it lies inside. `channels` is the pixels' number, or, if
 * they have four, 3 for the first three or 1 for the fourth alone. */
int fpc_add_pixels(fpc_chain *chain, const fpc_pixels *pixels, const fpc_box *box, int32_t channels);

/* Adds an image of the box's size with one channel, whose pixels all have the same value. */
int fpc_add_constant(fpc_chain *chain, const fpc_box *box, uint8_t value);

/* Adds the box's rows, given by an open decoder. */
int fpc_add_decoder(fpc_chain *chain, const fpc_codec *codec, void *decoder, const fpc_box *box, int32_t channels);

#endif
