/* isa_portable.c: the kernels in plain C, for every machine. */
#include "kernels.h"

#define FPC_PORTABLE 1

#include "unstuff_plain.h"
#include "huffman_plain.h"
#include "sequential_plain.h"
#include "progressive_plain.h"
#include "packed_plain.h"
#include "nonzero_plain.h"
#include "encode_plain.h"
#include "pack_plain.h"
#include "idct_plain.h"
#include "color_plain.h"
#include "inflate_plain.h"
#include "unfilter_plain.h"
#include "checksums_plain.h"
#include "paint_plain.h"
#include "operations_plain.h"
#include "adjust_plain.h"
#include "blur_plain.h"
#include "torch_blur_plain.h"
#include "float_blur_plain.h"
#include "hue_plain.h"
#include "cv_resize_plain.h"
#include "warp_plain.h"
#include "grid_sample_plain.h"
#include "planes_plain.h"
#include "resample_plain.h"
#include "sink_plain.h"
#include "rgbx_pad_plain.h"

const fpc_kernels fpc_kernels_portable = FPC_KERNELS;
