/* sink.h: writes the last stage's rows to the caller's memory. */
#ifndef FPC_SINK_H
#define FPC_SINK_H

#include "stage.h"

/* FPC_OK if the sink can be written, else FPC_BAD_OPERATION. fpc_sink_fill checks the size. */
int fpc_sink_check(const fpc_sink *sink);

/* Writes all rows of `from`, which must have the sink's size. For a sink of four channels `from` has four channels; or
 * three, and the fourth is `rgbx_pad`; or one, which becomes the fourth if `rgbx_pad` is FPC_RGBX_PAD_PLANE. `row` is
 * scratch memory. */
int fpc_sink_fill(const fpc_sink *sink, fpc_stage *from, int32_t rgbx_pad, fpc_normalizer *normalizer, fpc_buffer *row);

#endif
