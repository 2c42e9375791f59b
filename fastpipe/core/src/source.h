/* source.h: the first stage of a chain: pixels in memory, or a decoder's rows. */
#ifndef FPC_SOURCE_H
#define FPC_SOURCE_H

#include "codecs.h"
#include "stage.h"

/* A box of given pixels; the caller has checked that it lies inside. All channels that they have; of four three, or as
 * the only one the fourth. */
int fpc_add_pixels(fpc_chain *chain, const fpc_pixels *pixels, const fpc_box *box, int32_t channels);

/* One channel of one value, of the box's size. */
int fpc_add_constant(fpc_chain *chain, const fpc_box *box, uint8_t value);

/* The box's rows of a decoder, which has to be open. */
int fpc_add_decoder(fpc_chain *chain, const fpc_codec *codec, void *decoder, const fpc_box *box, int32_t channels);

#endif
