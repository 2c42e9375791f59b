/* kernels.h: the inner loops that exist once per instruction set. They are called through one table of pointers, which
 * is the only dispatch there is.
 *
 * Most kernels have two bodies, with the same signature and the same results, byte for byte:
 *   <name>_simd.h   in simd.h's functions, for AVX2 and NEON;
 *   <name>_plain.h  in plain C, for all other machines; the tests compare the SIMD body with it.
 * Loops that need no vectors have only the plain body; compilers use what each instruction set has.
 * isa_avx2.c, isa_avx512.c, isa_vbmi.c, isa_neon.c and isa_portable.c each include the bodies of all kernels (functions
 * are `static`, so all files use the same names) and fill one table. To add a kernel, add a pointer here, the function
 * in both bodies, and a line in FPC_KERNELS below. SIMD kernels may call a plain one for rare cases. */
#ifndef FPC_KERNELS_H
#define FPC_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bit_writer.h"
#include "bitstream.h"
#include "blur.h"
#include "cv_resize.h"
#include "float_blur.h"
#include "hue.h"
#include "resample_coeffs.h"
#include "idct.h"
#include "inflate.h"
#include "mcu.h"
#include "normalize.h"
#include "packed_row.h"
#include "torch_blur.h"
#include "unfilter.h"

#if defined(__x86_64__) || defined(_M_X64)
#define FPC_HAVE_AVX2 1
#else
#define FPC_HAVE_AVX2 0
#endif
/* gcc 8 is the first version with the instructions. */
#if FPC_HAVE_AVX2 && !(defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 8)
#define FPC_HAVE_AVX512 1
#else
#define FPC_HAVE_AVX512 0
#endif
#if defined(__aarch64__) || defined(_M_ARM64)
#define FPC_HAVE_NEON 1
#else
#define FPC_HAVE_NEON 0
#endif

/* warp.c: the image that a warp reads. */
typedef struct fpc_warp_source {
    const uint8_t *image; /* rows without gaps, with slack after the last one */
    int32_t height, width, channels;
    uint8_t fill[4]; /* the value outside of the image */
} fpc_warp_source;

/* resample.c: a group of pixels that are picked from a row together. */
#define FPC_PICK_BYTES 64
typedef struct fpc_pick_group {
    int32_t in, out;               /* FPC_PICK_BYTES bytes of the input, from `in` on, become the FPC_PICK_BYTES bytes
                                    * of the output from `out` on */
    uint8_t order[FPC_PICK_BYTES]; /* for each output byte, the index of its input byte */
} fpc_pick_group;

typedef struct fpc_picks {
    int32_t count, channels;
    int32_t *offsets; /* of each output pixel's input pixel */
    int32_t group_count;
    fpc_pick_group *groups; /* the same, with pixels that lie near each other together; ordered by `out` */
} fpc_picks;

/* grid_sample.c: an image and the points at which it is sampled. */
#define FPC_GRID_SAMPLE_BLOCK 256 /* points per turn */
typedef struct fpc_grid_sample {
    const uint32_t *pixels;           /* lowest byte: red; highest: 1; on each side a border of two zero pixels */
    int32_t channels;                 /* 1 or 3 */
    int32_t height, width;            /* without the border */
    int32_t out_height, out_width;    /* of the result */
    int32_t first_row, end_row;       /* the rows of the result to compute */
    int64_t plane;                    /* elements from one plane of the result to the next */
    const float *theta, *grid, *fill; /* as in fpc_grid_sample_planes */
    bool filled, bilinear, fused, floats;
    bool v2;   /* torchvision's v2, which mixes in the fill in another order */
    void *out; /* where first_row is written */
} fpc_grid_sample;

/* The bytes after a row in scratch memory; kernels read and write whole vectors. */
#define FPC_ROW_SLACK 128

typedef struct fpc_kernels {
    /* bitstream.h: unstuffs up to the copy's limit, the end of its input, or a marker. */
    void (*unstuff)(fpc_copy *copy);
    /* huffman.h: build the tables of a code. */
    void (*build_ac)(fpc_ac_table *table, const fpc_symbol_words *symbols);
    void (*build_skip)(fpc_skip_table *table, const fpc_symbol_words *symbols);
    /* mcu.h: read up to `count` MCUs of a scan, until the reader passes the limit; they return how many. *bad becomes
     * other than 0 if the bits aren't valid codes. Sequential scans: decode_mcus decodes, skip_mcus skips. */
    uint32_t (*decode_mcus)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad);
    uint32_t (*skip_mcus)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad);
    /* Progressive scans: the first scan of DC or AC coefficients, and a later scan that adds a bit to each. */
    uint32_t (*decode_dc)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                          uint32_t *bad);
    uint32_t (*refine_dc)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                          uint32_t *bad);
    uint32_t (*decode_band)(fpc_reader *reader, const uint8_t *limit, fpc_band *band, uint32_t count, uint32_t *bad);
    uint32_t (*refine_band)(fpc_reader *reader, const uint8_t *limit, fpc_band *band, uint32_t count, uint32_t *bad);
    /* inflate.h: decodes a block's codes, at most up to its end. */
    int (*inflate_codes)(fpc_inflate *inflate, const uint8_t *first, uint8_t **out, uint8_t *target);
    /* unfilter.h: undoes the filters of `count` rows of `pixels` pixels, each of `step` bytes. */
    void (*unfilter)(const fpc_filtered *rows, int count, int32_t pixels, int step);
    /* Looks up the colors of `count` pixels in a palette; reads and writes whole groups of 32 samples or pixels. */
    void (*paint)(const uint8_t *samples, int32_t count, const fpc_palette *palette, uint8_t *rgb);
    /* Checksums, continued from that of the data before; CRC-32 starts with 0, Adler-32 with 1. */
    uint32_t (*crc32)(uint32_t crc, const uint8_t *data, size_t size);
    uint32_t (*adler32)(uint32_t adler, const uint8_t *data, size_t size);
    /* packed_row.h: finds the streams of a packed row of `row->blocks` blocks, which must have exactly `size` bytes.
     * Returns FPC_OK or FPC_BAD_CODE. */
    int (*packed_layout)(const uint8_t *data, size_t size, fpc_packed_row *row);
    /* Reads the row's nonzero coefficients; those that don't fit in a byte are FPC_PACKED_ESCAPE. `smalls` and `values`
     * have room for FPC_PACKED_SLACK more. */
    void (*packed_values)(const fpc_packed_row *row, const fpc_packed_tables *tables, int8_t *smalls, int8_t *values);
    /* Decode the next `count` blocks without their DC, and each block's last index; or skip the blocks. */
    void (*packed_blocks)(fpc_packed_cursor *cursor, size_t count, int16_t *coefficients, uint8_t *last);
    void (*packed_skip)(fpc_packed_cursor *cursor, size_t count);
    /* A mask of the nonzero coefficients of a block: bit k for zigzag index k. All coefficients after `last` are 0. */
    uint64_t (*nonzero)(const int16_t *block, int last);
    /* bit_writer.h: writes a sequential block and its DC's difference. FPC_NO_CODE is set in the result if a symbol has
     * no code. */
    uint32_t (*encode_block)(fpc_bit_writer *to, const fpc_codes *dc, const fpc_codes *ac, const int16_t *block,
                             int last, int difference);
    /* packed_row.h: writes a block's AC coefficients, and returns the block's mask. */
    uint64_t (*pack_block)(fpc_packed_writer *to, const int16_t *block, int last);
    /* idct.h: transforms `count` blocks side by side to 8 rows of samples; writes whole groups of 16 samples. Returns
     * 0, or another number if a block's coefficients are so large that decoders disagree about the result. */
    int (*idct_blocks)(const int16_t *coefficients, const uint8_t *last, int count, const fpc_dequantizer *dequantizer,
                       uint8_t *out, size_t out_stride);
    /* color_plain.h: convert rows; whole groups of 32 samples or pixels are read and written. */
    void (*ycc_to_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, int count);
    void (*ycc_half_to_rgb)(const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int sums, uint8_t *rgb,
                            int count);
    void (*planes_to_rgb)(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *rgb, int count);
    void (*mix_rows)(const uint8_t *nearer, const uint8_t *farther, uint16_t *sums, int count);
    void (*widen_row)(const uint8_t *row, uint16_t *wide, int count);
    /* resample.c: arranges an axis's weights in `lanes` and sets `has_lanes`, if resample_horizontal is faster with
     * them for three channels. */
    void (*arrange_horizontal)(fpc_axis *axis);
    /* Resizes two rows (which may be the same) to the axis's outputs, with 1 or 3 channels; reads and writes up to
     * FPC_ROW_SLACK bytes after each row. */
    void (*resample_horizontal)(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                uint8_t *const out[2]);
    /* Computes row y of the axis's outputs, `bytes` bytes, from its counts[y] input rows; the last one is given twice.
     * Reads and writes whole groups of 32 bytes. */
    void (*resample_vertical)(const uint8_t *const *rows, const fpc_axis *axis, int32_t y, int64_t bytes, uint8_t *out);
    /* cv_resize.h: resizes a row of 1 or 3 channels to `count` pixels of 15 bits; reads up to FPC_ROW_SLACK bytes after
     * the row. */
    void (*cv_resize_row)(const uint8_t *in, const fpc_cv_tap *taps, int32_t count, int32_t channels, int16_t *out);
    /* Mixes two such rows of `values` values to bytes. */
    void (*cv_mix_rows)(const int16_t *first, const int16_t *second, const int16_t weights[2], int64_t values,
                        uint8_t *out);
    /* Picks a row's pixels; reads and writes up to FPC_ROW_SLACK bytes after each row. */
    void (*pick_pixels)(const uint8_t *in, const fpc_picks *picks, uint8_t *out);
    /* operations.c: convert rows of `count` pixels; whole groups of 32 are read and written. */
    void (*rgb_to_gray)(const uint8_t *in, int32_t count, uint8_t *out);
    /* These two read and write nothing after the row. */
    void (*flip_rgb)(const uint8_t *in, int32_t count, uint8_t *out);
    void (*flip_rgbx)(const uint8_t *in, int32_t count, uint8_t *out);
    void (*flip_gray)(const uint8_t *in, int32_t count, uint8_t *out);
    /* Looks each byte up in a table; reads and writes nothing else; `out` may be `in`. */
    void (*look_up)(const uint8_t *in, int64_t count, const uint8_t *table, uint8_t *out);
    /* Looks up `count` pixels of three channels, each in its own table; the tables follow each other. Reads and writes
     * whole groups of 32 bytes. */
    void (*look_up_rgb)(const uint8_t *in, int32_t count, const uint8_t *tables, uint8_t *out);
    /* adjust.c: mixes `first` and `second` as Pillow's blend does; reads and writes whole groups of 32 bytes. */
    void (*blend_rows)(const uint8_t *first, const uint8_t *second, float factor, int64_t count, uint8_t *out);
    /* Smooths the bytes of the middle one of three rows; their horizontal neighbours are `step` bytes away. */
    void (*smooth_row)(const uint8_t *above, const uint8_t *row, const uint8_t *below, int64_t count, int32_t step,
                       uint8_t *out);
    /* Adds `shift`, 0 to 255, to the hue of `count` pixels. */
    void (*turn_hue)(const uint8_t *in, int32_t count, int32_t shift, uint8_t *out);
    /* blur.h: blurs all lines of the pass from `in` to `out`; reads and writes whole groups of FPC_BLUR_GROUP bytes. */
    void (*blur_lines)(const fpc_blur_pass *pass, const uint8_t *in, uint8_t *out);
    /* Transposes FPC_BLUR_ROWS rows to lines of FPC_BLUR_ROWS bytes, one line per column, and back; whole groups of
     * FPC_BLUR_COLUMNS columns. */
    void (*blur_to_lines)(const uint8_t *rows, int64_t stride, int32_t columns, uint8_t *lines);
    void (*blur_to_rows)(const uint8_t *lines, int32_t columns, uint8_t *rows, int64_t stride);
    /* float_resize.c: transpose FPC_WEIGH_GROUP rows of `count` floats to columns of FPC_WEIGH_GROUP, and back. */
    void (*floats_to_columns)(const float *const *rows, int64_t count, float *columns);
    void (*columns_to_floats)(const float *columns, int64_t count, float *rows, int64_t stride);
    /* torch_blur.c, float_resize.c: convert `count` bytes to floats, and floats from 0 to 255 to the nearest bytes. */
    void (*bytes_to_floats)(const uint8_t *in, int64_t count, float *out);
    void (*round_floats)(const float *in, int64_t count, uint8_t *out);
    /* Adds up weighted values; reads and writes whole groups of FPC_WEIGH_GROUP. */
    void (*weigh_rows)(const fpc_weighing *weighing, float *out);
    /* The same, one after the other: `apart` products after the first are rounded before they are added, others not. */
    void (*weigh_in_order)(const fpc_weighing *weighing, int32_t apart, float *out);
    /* Adds up weighted values and rounds to bytes; `sums` has room for a row of floats. Returns how many groups of
     * FPC_DOUBT_GROUP have a sum within `margin` of a half, and writes their positions in the row to `doubtful`. */
    int32_t (*weigh_to_bytes)(const fpc_weighing *weighing, float margin, float *sums, uint8_t *out, int32_t *doubtful);
    /* Computes such groups again, adding in torch's order. */
    void (*weigh_exactly)(const fpc_exact_weighing *exact, const int32_t *groups, int32_t count, uint8_t *out);
    /* Makes `count` rows, 1 to FPC_CONVOLVE_ROWS, of a convolution; reads a group after each row of the input. */
    void (*convolve_rows)(const fpc_convolution *convolution, int32_t count);
    /* Turns the hue of `count` pixels; false if a float isn't from 0 to 1. */
    bool (*adjust_tensor_hue)(const fpc_hue_turn *turn, int64_t count);
    /* warp.c: computes the point in the image that each of `count` pixels of row y shows. */
    void (*warp_points)(const double *coefficients, bool perspective, int32_t y, int32_t count, double *xs, double *ys);
    /* Reads pixels at (x, y) + k * (dx, dy), in units of 1 / 2**16; all lie inside the image. */
    void (*warp_fixed)(const fpc_warp_source *warp, int32_t x, int32_t y, int32_t dx, int32_t dy, int32_t count,
                       uint8_t *out);
    /* Interpolate pixels at points; up to FPC_ROW_SLACK bytes after `out` are written. */
    void (*warp_bilinear)(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count, uint8_t *out);
    void (*warp_bicubic)(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count, uint8_t *out);
    void (*grid_sample)(const fpc_grid_sample *sample);
    /* planes_plain.h: these read and write nothing after the row. */
    void (*planes_gray)(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int64_t count, bool fused,
                        uint8_t *out);
    void (*planes_blend)(const uint8_t *first, const uint8_t *second, float by, float rest, int64_t count, bool fused,
                         uint8_t *out);
    void (*planes_shift)(const uint8_t *first, const uint8_t *second, float rest, int64_t count, bool fused,
                         uint8_t *out);
    void (*planes_mix)(const uint8_t *const *images, const float *weights, int image_count, int64_t count,
                       uint8_t *out);
    /* source.c and sink.c: convert pixels of four bytes to pixels of three, and back with a given fourth byte. Up to
     * FPC_ROW_SLACK bytes after `rgb` are written or read; the last pixel's fourth byte isn't read. */
    void (*drop_rgbx_pad)(const uint8_t *rgbx, int32_t count, uint8_t *rgb);
    void (*add_rgbx_pad)(const uint8_t *rgb, int32_t count, uint8_t rgbx_pad, uint8_t *rgbx);
    /* Read and write only the fourth bytes of pixels of four bytes. */
    void (*take_rgbx_pad)(const uint8_t *rgbx, int32_t count, uint8_t *out);
    void (*set_rgbx_pad)(const uint8_t *rgbx_pads, int32_t count, uint8_t *rgbx);
    /* True if the fourth byte of each of `count` pixels is `rgbx_pad`. */
    bool (*same_rgbx_pad)(const uint8_t *rgbx, int32_t count, uint8_t rgbx_pad);
    /* sink.c: splits `count` pixels of three channels to three rows of bytes; reads up to 64 bytes after `rgb`. */
    void (*split_channels)(const uint8_t *rgb, int32_t count, uint8_t *const out[3]);
    /* Writes `count` pixels as blue, green, red, and nothing after them; reads up to 32 bytes after `rgb`. */
    void (*reverse_channels)(const uint8_t *rgb, int32_t count, uint8_t *bgr);
    /* Normalizes `count` pixels of three channels to three rows of normalizer->dtype. */
    void (*normalize_planar)(const uint8_t *rgb, int32_t count, const fpc_normalizer *normalizer, void *const out[3]);
    /* Normalizes `count` bytes, whose 1 or 3 channels alternate, to `count` contiguous elements. */
    void (*normalize_interleaved)(const uint8_t *row, int64_t count, const fpc_normalizer *normalizer, int32_t channels,
                                  void *out);
} fpc_kernels;

#define FPC_KERNELS                                                                                                    \
    {                                                                                                                  \
        .unstuff = unstuff,                                                                                            \
        .build_ac = build_ac,                                                                                          \
        .build_skip = build_skip,                                                                                      \
        .decode_mcus = decode_mcus,                                                                                    \
        .skip_mcus = skip_mcus,                                                                                        \
        .decode_dc = decode_dc,                                                                                        \
        .refine_dc = refine_dc,                                                                                        \
        .decode_band = decode_band,                                                                                    \
        .refine_band = refine_band,                                                                                    \
        .inflate_codes = inflate_codes,                                                                                \
        .unfilter = unfilter,                                                                                          \
        .paint = paint,                                                                                                \
        .crc32 = crc32,                                                                                                \
        .adler32 = adler32,                                                                                            \
        .packed_layout = packed_layout,                                                                                \
        .packed_values = packed_values,                                                                                \
        .packed_blocks = packed_blocks,                                                                                \
        .packed_skip = packed_skip,                                                                                    \
        .nonzero = nonzero,                                                                                            \
        .encode_block = encode_block,                                                                                  \
        .pack_block = pack_block,                                                                                      \
        .idct_blocks = idct_blocks,                                                                                    \
        .ycc_to_rgb = ycc_to_rgb,                                                                                      \
        .ycc_half_to_rgb = ycc_half_to_rgb,                                                                            \
        .planes_to_rgb = planes_to_rgb,                                                                                \
        .mix_rows = mix_rows,                                                                                          \
        .widen_row = widen_row,                                                                                        \
        .arrange_horizontal = arrange_horizontal,                                                                      \
        .resample_horizontal = resample_horizontal,                                                                    \
        .resample_vertical = resample_vertical,                                                                        \
        .cv_resize_row = cv_resize_row,                                                                                \
        .cv_mix_rows = cv_mix_rows,                                                                                    \
        .pick_pixels = pick_pixels,                                                                                    \
        .flip_rgb = flip_rgb,                                                                                          \
        .flip_rgbx = flip_rgbx,                                                                                        \
        .flip_gray = flip_gray,                                                                                        \
        .rgb_to_gray = rgb_to_gray,                                                                                    \
        .look_up = look_up,                                                                                            \
        .look_up_rgb = look_up_rgb,                                                                                    \
        .blend_rows = blend_rows,                                                                                      \
        .smooth_row = smooth_row,                                                                                      \
        .turn_hue = turn_hue,                                                                                          \
        .blur_lines = blur_lines,                                                                                      \
        .blur_to_lines = blur_to_lines,                                                                                \
        .blur_to_rows = blur_to_rows,                                                                                  \
        .floats_to_columns = floats_to_columns,                                                                        \
        .columns_to_floats = columns_to_floats,                                                                        \
        .bytes_to_floats = bytes_to_floats,                                                                            \
        .round_floats = round_floats,                                                                                  \
        .weigh_rows = weigh_rows,                                                                                      \
        .weigh_in_order = weigh_in_order,                                                                              \
        .weigh_to_bytes = weigh_to_bytes,                                                                              \
        .weigh_exactly = weigh_exactly,                                                                                \
        .convolve_rows = convolve_rows,                                                                                \
        .adjust_tensor_hue = adjust_tensor_hue,                                                                        \
        .warp_points = warp_points,                                                                                    \
        .warp_fixed = warp_fixed,                                                                                      \
        .warp_bilinear = warp_bilinear,                                                                                \
        .warp_bicubic = warp_bicubic,                                                                                  \
        .grid_sample = grid_sample,                                                                                    \
        .planes_gray = planes_gray,                                                                                    \
        .planes_blend = planes_blend,                                                                                  \
        .planes_shift = planes_shift,                                                                                  \
        .planes_mix = planes_mix,                                                                                      \
        .drop_rgbx_pad = drop_rgbx_pad,                                                                                \
        .add_rgbx_pad = add_rgbx_pad,                                                                                  \
        .take_rgbx_pad = take_rgbx_pad,                                                                                \
        .set_rgbx_pad = set_rgbx_pad,                                                                                  \
        .same_rgbx_pad = same_rgbx_pad,                                                                                \
        .split_channels = split_channels,                                                                              \
        .reverse_channels = reverse_channels,                                                                          \
        .normalize_planar = normalize_planar,                                                                          \
        .normalize_interleaved = normalize_interleaved,                                                                \
    }

extern const fpc_kernels fpc_kernels_portable;
#if FPC_HAVE_AVX2
extern const fpc_kernels fpc_kernels_avx2;
#endif
#if FPC_HAVE_AVX512
extern const fpc_kernels fpc_kernels_avx512;
extern const fpc_kernels fpc_kernels_vbmi;
#endif
#if FPC_HAVE_NEON
extern const fpc_kernels fpc_kernels_neon;
#endif

/* cpu.c: the table for an fpc_isa (FPC_ISA_BEST: for fpc_best_isa()); NULL if the machine or this build lacks it. */
const fpc_kernels *fpc_kernels_of(int isa);

#endif
