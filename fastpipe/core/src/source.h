/* source.h: the first stage of a chain: pixels in memory, or a decoder's rows. */
#ifndef FPC_SOURCE_H
#define FPC_SOURCE_H

#include "codecs.h"
#include "stage.h"

/* Adds a box of given pixels, which the caller has checked to lie inside, with all `channels` that they have; of four
 * also three, or, with 1, the fourth alone. */
int fpc_add_pixels(fpc_chain *chain, const fpc_pixels *pixels, const fpc_box *box, int32_t channels);

/* Adds an image of one channel and one value, of the box's size. */
int fpc_add_constant(fpc_chain *chain, const fpc_box *box, uint8_t value);

/* Adds the box's rows of a decoder, which has to be open. */
int fpc_add_decoder(fpc_chain *chain, const fpc_codec *codec, void *decoder, const fpc_box *box, int32_t channels);

#endif
