/* kernels.h: the inner loops that exist once for each instruction set, called through one table of pointers, which is
 * all the dispatch there is.
 *
 * Kernels have two bodies with the same signatures and, byte for byte, the same results:
 *   <name>_simd.h   in the words of simd.h (AVX2 and NEON);
 *   <name>_plain.h  in plain C, which is the portable form and the one that the other is tested against.
 * Loops that need no vectors have the plain body alone, and compilers make use of what each instruction set has.
 * isa_avx2.c, isa_avx512.c, isa_vbmi.c, isa_neon.c and isa_portable.c each include the bodies of all (functions are
 * `static`, so the names are the same in all of them) and fill one table. To add a kernel: a pointer here, the function
 * in both bodies, one line in FPC_KERNELS below. SIMD kernels may call a plain one for what is rare. */
#ifndef FPC_KERNELS_H
#define FPC_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bit_writer.h"
#include "bitstream.h"
#include "blur.h"
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
/* gcc 8 is the first that has the instructions. */
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
    const uint8_t *image; /* rows without gaps, with slack after the last */
    int32_t height, width, channels;
    uint8_t fill[4]; /* where a pixel comes from outside */
} fpc_warp_source;

/* resample.c: bytes of a group of pixels that is picked from a row. */
#define FPC_PICK_BYTES 64
typedef struct fpc_pick_group {
    int32_t in, out;               /* FPC_PICK_BYTES bytes from `in` on become the FPC_PICK_BYTES from `out` on */
    uint8_t order[FPC_PICK_BYTES]; /* for each byte of `out` the index of its byte of `in` */
} fpc_pick_group;

typedef struct fpc_picks {
    int32_t count, channels;
    int32_t *offsets; /* of each pixel */
    int32_t group_count;
    fpc_pick_group *groups; /* the same, pixels that lie near each other together; in the order of `out` */
} fpc_picks;

/* grid_sample.c: an image and the points in it that are wanted. */
#define FPC_GRID_SAMPLE_BLOCK 256 /* points at once */
typedef struct fpc_grid_sample {
    const uint32_t *pixels;           /* red in the lowest byte, 1 in the highest; on each side a border of two zeros */
    int32_t channels;                 /* 1 or 3 */
    int32_t height, width;            /* without the border */
    int32_t out_height, out_width;    /* of the result */
    int32_t first_row, end_row;       /* the rows of the result that are made */
    int64_t plane;                    /* elements from one of the result's planes to the next */
    const float *theta, *grid, *fill; /* as fpc_grid_sample_planes has them */
    bool filled, bilinear, fused, floats;
    bool v2;   /* torchvision's v2, which mixes with the fill in another order */
    void *out; /* where first_row goes */
} fpc_grid_sample;

/* Bytes after a row in scratch memory: kernels read and write whole vectors. */
#define FPC_ROW_SLACK 128

typedef struct fpc_kernels {
    /* bitstream.h: up to the copy's limit, its end or a marker. */
    void (*unstuff)(fpc_copy *copy);
    /* huffman.h: the tables of a code. */
    void (*build_ac)(fpc_ac_table *table, const fpc_symbol_words *symbols);
    void (*build_skip)(fpc_skip_table *table, const fpc_symbol_words *symbols);
    /* mcu.h: up to `count` MCUs of a scan, as long as the reader isn't past the limit; return how many. *bad becomes
     * other than 0 where the bits are no code. Of sequential scans: decodes them, or skips them. */
    uint32_t (*decode_mcus)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad);
    uint32_t (*skip_mcus)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t *bad);
    /* Progressive scans: DC and AC coefficients in their first scan, and one more bit of each in a later one. */
    uint32_t (*decode_dc)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                          uint32_t *bad);
    uint32_t (*refine_dc)(fpc_reader *reader, const uint8_t *limit, fpc_mcu *mcu, uint32_t count, uint32_t low,
                          uint32_t *bad);
    uint32_t (*decode_band)(fpc_reader *reader, const uint8_t *limit, fpc_band *band, uint32_t count, uint32_t *bad);
    uint32_t (*refine_band)(fpc_reader *reader, const uint8_t *limit, fpc_band *band, uint32_t count, uint32_t *bad);
    /* inflate.h: a block's codes, up to its end at most. */
    int (*inflate_codes)(fpc_inflate *inflate, const uint8_t *first, uint8_t **out, uint8_t *target);
    /* unfilter.h: `count` rows of `pixels` of `step` bytes each. */
    void (*unfilter)(const fpc_filtered *rows, int count, int32_t pixels, int step);
    /* `count` pixels of a palette's colors; whole groups of 32 samples and pixels are read and written. */
    void (*paint)(const uint8_t *samples, int32_t count, const fpc_palette *palette, uint8_t *rgb);
    /* The checksum goes on from the one of what came before; CRC-32 begins with 0, Adler-32 with 1. */
    uint32_t (*crc32)(uint32_t crc, const uint8_t *data, size_t size);
    uint32_t (*adler32)(uint32_t adler, const uint8_t *data, size_t size);
    /* packed_row.h: finds the streams of a packed row of `row->blocks` blocks, which have to take exactly `size` bytes;
     * FPC_OK or FPC_BAD_CODE. */
    int (*packed_layout)(const uint8_t *data, size_t size, fpc_packed_row *row);
    /* The row's coefficients that aren't zero; FPC_PACKED_ESCAPE stands for those that don't fit into a byte. `smalls`
     * and `values` have room for FPC_PACKED_SLACK more. */
    void (*packed_values)(const fpc_packed_row *row, const fpc_packed_tables *tables, int8_t *smalls, int8_t *values);
    /* Decodes the next `count` blocks, without their DC, and for each the index of its last coefficient; or skips
     * them. */
    void (*packed_blocks)(fpc_packed_cursor *cursor, size_t count, int16_t *coefficients, uint8_t *last);
    void (*packed_skip)(fpc_packed_cursor *cursor, size_t count);
    /* Which coefficients of a block aren't 0: bit k for zigzag index k. All coefficients after `last` are 0. */
    uint64_t (*nonzero)(const int16_t *block, int last);
    /* bit_writer.h: a sequential block and its DC's difference; FPC_NO_CODE is set in what comes back where a symbol
     * had no code. */
    uint32_t (*encode_block)(fpc_bit_writer *to, const fpc_codes *dc, const fpc_codes *ac, const int16_t *block,
                             int last, int difference);
    /* packed_row.h: the AC coefficients of a block; returns its mask. */
    uint64_t (*pack_block)(fpc_packed_writer *to, const int16_t *block, int last);
    /* idct.h: `count` blocks side by side to 8 rows of samples. Whole groups of 16 samples are written. 0, or not 0
     * where a block's coefficients are so large that decoders differ about them. */
    int (*idct_blocks)(const int16_t *coefficients, const uint8_t *last, int count, const fpc_dequantizer *dequantizer,
                       uint8_t *out, size_t out_stride);
    /* color_plain.h: rows; whole groups of 32 samples or pixels are read and written. */
    void (*ycc_to_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *rgb, int count);
    void (*ycc_half_to_rgb)(const uint8_t *y, const uint16_t *cb, const uint16_t *cr, int sums, uint8_t *rgb,
                            int count);
    void (*planes_to_rgb)(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *rgb, int count);
    void (*mix_rows)(const uint8_t *nearer, const uint8_t *farther, uint16_t *sums, int count);
    void (*widen_row)(const uint8_t *row, uint16_t *wide, int count);
    /* resample.c: arranges an axis's weights in `lanes`, which resample_horizontal reads for three channels where that
     * is faster; sets `has_lanes` then. */
    void (*arrange_horizontal)(fpc_axis *axis);
    /* Two rows (perhaps the same) into two rows of the axis's outputs, for 1 or 3 channels; up to
     * FPC_ROW_SLACK bytes after each row are read and written. */
    void (*resample_horizontal)(const uint8_t *const in[2], const fpc_axis *axis, int32_t channels,
                                uint8_t *const out[2]);
    /* The axis's output y of `bytes` bytes from its counts[y] rows, of which the last one is there twice; rows are read
     * and `out` is written in whole groups of 32 bytes. */
    void (*resample_vertical)(const uint8_t *const *rows, const fpc_axis *axis, int32_t y, int64_t bytes, uint8_t *out);
    /* A row's pixels; up to FPC_ROW_SLACK bytes after each row are read and written. */
    void (*pick_pixels)(const uint8_t *in, const fpc_picks *picks, uint8_t *out);
    /* operations.c: rows of `count` pixels; whole groups of 32 are read and written. */
    void (*rgb_to_gray)(const uint8_t *in, int32_t count, uint8_t *out);
    /* Nothing else is read and written. */
    void (*flip_rgb)(const uint8_t *in, int32_t count, uint8_t *out);
    void (*flip_rgbx)(const uint8_t *in, int32_t count, uint8_t *out);
    void (*flip_gray)(const uint8_t *in, int32_t count, uint8_t *out);
    /* Looks each byte up in a table, and reads and writes nothing else; `out` may be `in`. */
    void (*look_up)(const uint8_t *in, int64_t count, const uint8_t *table, uint8_t *out);
    /* Looks up `count` pixels of three channels, each in a table of its own, one after the other; whole groups
     * of 32 bytes are read and written. */
    void (*look_up_rgb)(const uint8_t *in, int32_t count, const uint8_t *tables, uint8_t *out);
    /* adjust.c: whole groups of 32 bytes are read and written. `first` and `second` mixed, as Pillow's blend. */
    void (*blend_rows)(const uint8_t *first, const uint8_t *second, float factor, int64_t count, uint8_t *out);
    /* Bytes of the middle one of three rows smoothed; the neighbours are `step` bytes away. */
    void (*smooth_row)(const uint8_t *above, const uint8_t *row, const uint8_t *below, int64_t count, int32_t step,
                       uint8_t *out);
    /* The hue of `count` pixels plus `shift`, 0 to 255. */
    void (*turn_hue)(const uint8_t *in, int32_t count, int32_t shift, uint8_t *out);
    /* blur.h: all lines of the pass, from `in` to `out`; whole groups of FPC_BLUR_GROUP bytes are read and written. */
    void (*blur_lines)(const fpc_blur_pass *pass, const uint8_t *in, uint8_t *out);
    /* FPC_BLUR_ROWS rows into lines of FPC_BLUR_ROWS bytes, one for each column, and back; whole groups of
     * FPC_BLUR_COLUMNS columns. */
    void (*blur_to_lines)(const uint8_t *rows, int64_t stride, int32_t columns, uint8_t *lines);
    void (*blur_to_rows)(const uint8_t *lines, int32_t columns, uint8_t *rows, int64_t stride);
    /* torch_blur.h: `count` bytes as floats, whole groups of 8. */
    void (*floats_of)(const uint8_t *in, int64_t count, float *out);
    /* Weighted sums; whole groups of FPC_WEIGH_GROUP are read and written. */
    void (*weigh_rows)(const fpc_weighing *weighing, float *out);
    /* Weighted sums rounded to bytes; `sums` has room for a row's floats. Returns how many groups of FPC_DOUBT_GROUP
     * hold a sum that is within `margin` of a half, and in `doubtful` where in the row they are. */
    int32_t (*weigh_to_bytes)(const fpc_weighing *weighing, float margin, float *sums, uint8_t *out, int32_t *doubtful);
    /* Computes those groups anew, in torch's order of sums. */
    void (*weigh_exactly)(const fpc_exact_weighing *exact, const int32_t *groups, int32_t count, uint8_t *out);
    /* warp.c: the point in the image that each of `count` pixels of row y shows. */
    void (*warp_points)(const double *coefficients, bool perspective, int32_t y, int32_t count, double *xs, double *ys);
    /* Pixels at (x, y) + k * (dx, dy), in parts of 2**16, all inside the image. */
    void (*warp_fixed)(const fpc_warp_source *warp, int32_t x, int32_t y, int32_t dx, int32_t dy, int32_t count,
                       uint8_t *out);
    /* Pixels interpolated at points; up to FPC_ROW_SLACK bytes after `out` are written. */
    void (*warp_bilinear)(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count, uint8_t *out);
    void (*warp_bicubic)(const fpc_warp_source *warp, const double *xs, const double *ys, int32_t count, uint8_t *out);
    void (*grid_sample)(const fpc_grid_sample *sample);
    /* planes_plain.h: nothing else is read and written. */
    void (*planes_gray)(const uint8_t *red, const uint8_t *green, const uint8_t *blue, int64_t count, bool fused,
                        uint8_t *out);
    void (*planes_blend)(const uint8_t *first, const uint8_t *second, float by, float rest, int64_t count, bool fused,
                         uint8_t *out);
    void (*planes_shift)(const uint8_t *first, const uint8_t *second, float rest, int64_t count, bool fused,
                         uint8_t *out);
    void (*planes_mix)(const uint8_t *const *images, const float *weights, int image_count, int64_t count,
                       uint8_t *out);
    /* source.c and sink.c: pixels of three bytes from ones of four, and back with that value as the fourth. Up to
     * FPC_ROW_SLACK bytes after `rgb` are written or read; the last pixel's fourth byte isn't read. */
    void (*drop_rgbx_pad)(const uint8_t *rgbx, int32_t count, uint8_t *rgb);
    void (*add_rgbx_pad)(const uint8_t *rgb, int32_t count, uint8_t rgbx_pad, uint8_t *rgbx);
    /* Fourth bytes alone, from pixels of four bytes and into them; nothing else is read and written. */
    void (*take_rgbx_pad)(const uint8_t *rgbx, int32_t count, uint8_t *out);
    void (*set_rgbx_pad)(const uint8_t *rgbx_pads, int32_t count, uint8_t *rgbx);
    /* Whether the fourth byte of each of `count` pixels is this one. */
    bool (*same_rgbx_pad)(const uint8_t *rgbx, int32_t count, uint8_t rgbx_pad);
    /* sink.c: `count` pixels of three channels into three rows of bytes; up to 64 bytes after `rgb` are read. */
    void (*split_channels)(const uint8_t *rgb, int32_t count, uint8_t *const out[3]);
    /* `count` pixels as blue, green, red; up to 32 bytes after `rgb` are read, and nothing else is written. */
    void (*reverse_channels)(const uint8_t *rgb, int32_t count, uint8_t *bgr);
    /* `count` pixels of three channels into three rows of normalizer->dtype. */
    void (*normalize_planar)(const uint8_t *rgb, int32_t count, const fpc_normalizer *normalizer, void *const out[3]);
    /* `count` bytes, of 1 or 3 channels in turn, into `count` elements one after the other. */
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
        .floats_of = floats_of,                                                                                        \
        .weigh_rows = weigh_rows,                                                                                      \
        .weigh_to_bytes = weigh_to_bytes,                                                                              \
        .weigh_exactly = weigh_exactly,                                                                                \
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

/* cpu.c: the table of an fpc_isa (FPC_ISA_BEST: of fpc_best_isa()); NULL where this machine or build doesn't have
 * it. */
const fpc_kernels *fpc_kernels_of(int isa);

#endif
