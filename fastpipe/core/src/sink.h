/* sink.h: the last stage's rows into the caller's memory. */
#ifndef FPC_SINK_H
#define FPC_SINK_H

#include "stage.h"

/* Whether the sink can be written: FPC_OK or FPC_BAD_OPERATION. Its size is checked by fpc_sink_fill. */
int fpc_sink_check(const fpc_sink *sink);

/* Writes all rows that `from` gives, which has to have the sink's size. Into a sink of four channels: all of them;
 * three, and `rgbx_pad` after them; or one, with FPC_RGBX_PAD_PLANE, as the fourth alone. `row` is scratch memory. */
int fpc_sink_fill(const fpc_sink *sink, fpc_stage *from, int32_t rgbx_pad, fpc_normalizer *normalizer, fpc_buffer *row);

#endif
