/* fastpipe_core.h: the whole interface of the core.
 *
 * From the bytes of a JPEG, a PNG or a packed image, or from pixels, over operations, to finished pixels in memory that
 * the caller owns. C11, no dependency, no state but a context's scratch memory. Every function may be called by several
 * threads at once, each with a context of its own. Sizes and boxes are in pixels; rows go down, columns to the right.
 *
 * The reference is Pillow: what comes out equals, bit for bit, what Pillow (and torchvision on PIL images) gives, or
 * the job is refused with a reason, and another decoder decides about the file. One exception: of a PNG whose chunks
 * have right checksums nothing is inflated below the box, so that damage there, for which Pillow refuses, is not met.
 */
#ifndef FASTPIPE_CORE_H
#define FASTPIPE_CORE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FPC_API __declspec(dllexport)
#else
#define FPC_API __attribute__((visibility("default")))
#endif

#define FPC_ABI 17 /* changes with every struct below */

/* ---- outcomes ------------------------------------------------------------------------------------------------- */

typedef enum fpc_status {
    FPC_OK = 0,
    /* Refused: the file may be fine; the next backend decides. */
    FPC_UNKNOWN_FORMAT,   /* begins neither as a JPEG or PNG nor as a packed image */
    FPC_UNUSUAL_HEADER,   /* a segment that Pillow may read otherwise, or none that was expected */
    FPC_UNSUPPORTED_MODE, /* JPEG: arithmetic coding, lossless, 12 bits, hierarchical; PNG: 16 bits, interlaced, APNG */
    FPC_UNSUPPORTED_COLOR, /* CMYK, YCCK, two components, odd sampling */
    FPC_BAD_TABLE,         /* a Huffman or quantization table, or a palette, is missing, impossible or too short */
    FPC_BAD_SCAN,          /* scans that don't bring each coefficient once, or an impossible script */
    FPC_BAD_CODE,          /* compressed data that is no code, or more than the image holds */
    FPC_TRUNCATED,         /* the data ends early, or without an end-of-image marker or chunk */
    FPC_BAD_MARKER,        /* a marker or a chunk that doesn't belong where it stands */
    FPC_BAD_CHECKSUM,      /* a checksum of a PNG or a packed image is wrong */
    FPC_CONTRADICTION,     /* a packed image's head and its segments say different things */
    FPC_TOO_LARGE,         /* more pixels, bytes or scans than the caller's limits allow */
    FPC_BAD_REGION,        /* the box isn't inside the image, or has no pixel */
    FPC_BAD_OPERATION,     /* an operation or a sink that the core doesn't have, or arguments that don't fit */
    /* Failed. */
    FPC_NO_MEMORY,
    FPC_IO_ERROR, /* fpc_job.os_error has errno */
    /* Left: torch itself rounds some of these pixels one way and some another, by where they lie in memory. */
    FPC_UNSURE,
    FPC_OTHER_BYTES, /* packing: a JPEG of these coefficients, codes and scans has other bytes */
    FPC_STATUS_COUNT
} fpc_status;

/* One sentence in English for a status; "unknown status" for another number. */
FPC_API const char *fpc_status_text(int status);

/* FPC_ABI of the library that was loaded. */
FPC_API int fpc_abi(void);

/* How the library was built: the compiler with its version, and "hardened" where CMake's FPC_HARDEN was on. */
FPC_API const char *fpc_build(void);

/* ---- instruction sets ------------------------------------------------------------------------------------------ */

/* FPC_ISA_AVX512 is AVX2 with AVX-512's VNNI on vectors of the same width, and its VBMI where there is that. */
typedef enum fpc_isa { FPC_ISA_BEST = 0, FPC_ISA_PORTABLE, FPC_ISA_AVX2, FPC_ISA_NEON, FPC_ISA_AVX512 } fpc_isa;

/* The instruction set that FPC_ISA_BEST means on this machine; FPC_ISA_PORTABLE where there is none of the others. */
FPC_API int fpc_best_isa(void);

/* ---- contexts -------------------------------------------------------------------------------------------------- */

typedef struct fpc_context fpc_context;
/* Scratch memory of one thread. NULL where there is no memory, or the machine lacks the instruction set. */
FPC_API fpc_context *fpc_context_new(int isa);
FPC_API void fpc_context_free(fpc_context *context);
/* Bytes of memory that the context holds. */
FPC_API size_t fpc_context_bytes(const fpc_context *context);

/* ---- headers --------------------------------------------------------------------------------------------------- */

typedef enum fpc_format { FPC_FORMAT_JPEG = 0, FPC_FORMAT_PNG, FPC_FORMAT_PACKED } fpc_format;

typedef enum fpc_color {
    FPC_GRAY = 1,
    FPC_YCBCR,
    FPC_RGB,
    FPC_CMYK,
    FPC_YCCK,
    FPC_PALETTE,
    FPC_GRAY_ALPHA,
    FPC_RGBA
} fpc_color;

/* fastpipe.types.Header's fields, up to a JPEG's first scan, a PNG's first IDAT chunk or a packed image's rows. */
typedef struct fpc_header {
    int32_t height, width;
    int32_t components; /* 1 to 4; 1 with a palette */
    int32_t bit_depth;
    int32_t color;         /* fpc_color; a JPEG's by libjpeg's rule (jdapimin.c, default_decompress_parms) */
    int32_t sampling[4];   /* a JPEG's: each component's factors as in the file: horizontal << 4 | vertical */
    int32_t progressive;   /* or interlaced: 0 or 1 */
    int32_t orientation;   /* EXIF's, 1 to 8; 1 where none or none of these is given */
    int32_t multi_picture; /* a JPEG's MPF segment: Pillow may call it MPO */
    int32_t plain;         /* as Header.plain: nothing keeps a fast reader from Pillow's pixels */
    int32_t format;        /* fpc_format */
    int32_t transparency;  /* a PNG's tRNS chunk: 0 or 1 */
    int32_t animated;      /* an APNG: 0 or 1 */
    int64_t data_offset;   /* where the first scan's data, or the first IDAT chunk, starts, in bytes */
} fpc_header;

/* Reads the header. The data may be a file's first bytes: FPC_TRUNCATED says that more are needed.
 * FPC_UNUSUAL_HEADER: Pillow has to read it. */
FPC_API int fpc_read_header(const uint8_t *data, size_t length, fpc_header *header);

/* Position of the first marker but restart markers in a JPEG's scan, from `start` on (ITU-T T.81, B.1.1), or -1. */
FPC_API int64_t fpc_find_marker(const uint8_t *data, size_t length, size_t start);
/* FPC_OK if every decoder comes to the end of a JPEG without an error, whatever its scan's bits say; else why not. */
FPC_API int fpc_check_jpeg(const uint8_t *data, size_t length);

/* ---- operations ------------------------------------------------------------------------------------------------ */

typedef enum fpc_filter { FPC_NEAREST = 0, FPC_BOX, FPC_BILINEAR, FPC_HAMMING, FPC_BICUBIC, FPC_LANCZOS } fpc_filter;

typedef enum fpc_padding { FPC_CONSTANT = 0, FPC_EDGE, FPC_REFLECT, FPC_SYMMETRIC } fpc_padding;

/* A part of an image. */
typedef struct fpc_box {
    int32_t top, left, height, width;
} fpc_box;

typedef enum fpc_kind {
    FPC_OP_CROP = 1,      /* crop: a box inside the image */
    FPC_OP_RESIZE,        /* resize */
    FPC_OP_HFLIP,         /* left becomes right */
    FPC_OP_VFLIP,         /* top becomes bottom */
    FPC_OP_TRANSPOSE,     /* rows become columns */
    FPC_OP_PAD,           /* pad */
    FPC_OP_LUT,           /* lut */
    FPC_OP_GRAY,          /* gray */
    FPC_OP_SATURATION,    /* blend: ImageEnhance.Color, with the gray image */
    FPC_OP_CONTRAST,      /* blend: ImageEnhance.Contrast, with the gray image's mean */
    FPC_OP_SHARPNESS,     /* blend: ImageEnhance.Sharpness, with the smoothed image */
    FPC_OP_HUE,           /* hue */
    FPC_OP_AUTOCONTRAST,  /* ImageOps.autocontrast(image) */
    FPC_OP_EQUALIZE,      /* ImageOps.equalize(image) */
    FPC_OP_AFFINE,        /* warp: Image.transform(size, AFFINE, ...) */
    FPC_OP_PERSPECTIVE,   /* warp: the same with PERSPECTIVE */
    FPC_OP_BOX_BLUR,      /* blur: ImageFilter.BoxBlur */
    FPC_OP_GAUSSIAN_BLUR, /* blur: ImageFilter.GaussianBlur */
    /* torchvision's operations on uint8 tensors, in the rounding that `flags` says (FPC_FUSED, FPC_V1). */
    FPC_OP_TENSOR_GRAY,         /* gray: rgb_to_grayscale */
    FPC_OP_TENSOR_SATURATION,   /* blend: adjust_saturation */
    FPC_OP_TENSOR_CONTRAST,     /* blend: adjust_contrast of an image whose gray values' sum is at most 2**24 */
    FPC_OP_TENSOR_SHARPNESS,    /* blend: adjust_sharpness; images of fewer than three rows or columns stay */
    FPC_OP_TENSOR_HUE,          /* turn: adjust_hue, of v2 */
    FPC_OP_TENSOR_AUTOCONTRAST, /* autocontrast */
    FPC_OP_TENSOR_SAMPLE,       /* sample: affine and rotate; FPC_BILINEAR in `filter` or FPC_NEAREST */
    FPC_OP_TORCH_BLUR,          /* torch_blur: gaussian_blur, also of PIL images */
    FPC_OP_PERMUTE,             /* permutation: permute_channels, also of PIL images */
    FPC_OP_COUNT
} fpc_kind;

/* The pass that a resize begins with; Pillow's choice changed with its version 13. */
typedef enum fpc_pass_order {
    FPC_HORIZONTAL_FIRST = 0,
    FPC_VERTICAL_FIRST,
    FPC_FEWER_ROWS_FIRST, /* vertical where more rows go away than twice the columns that do, else horizontal */
    FPC_TORCH_PASSES /* torch's interpolate of uint8 tensors, antialiased, in Pillow's place: horizontal first, with
                           * weights of 16 bits; FPC_BILINEAR and FPC_BICUBIC, of a whole image */
} fpc_pass_order;

/* Pillow's resize of a whole image, of which only parts are there and wanted. */
typedef struct fpc_op_resize {
    int32_t in_height, in_width;   /* of the whole input; both 0 where all of it is there: then x1 and y1 aren't read */
    int32_t in_top, in_left;       /* of the pixels that are there, in the whole input */
    int32_t out_height, out_width; /* of the whole output */
    fpc_box window;                /* the part of the output that is wanted */
    int32_t filter;                /* fpc_filter */
    int32_t pass_order;            /* fpc_pass_order */
    double x0, y0, x1, y1;         /* the source box in the whole input, as Pillow's resize(box=) */
} fpc_op_resize;

typedef struct fpc_op_pad {
    int32_t left, top, right, bottom;
    int32_t mode;    /* fpc_padding */
    int32_t fill[4]; /* FPC_CONSTANT: each channel's value, 0 to 255, and the fourth byte's */
} fpc_op_pad;

/* Values looked up. */
typedef struct fpc_op_lut {
    const uint8_t *table; /* 256 bytes for each channel, one table after the other */
    int32_t rgbx_pad; /* what the fourth byte becomes, 0 to 255; FPC_LOOK_UP_RGBX_PAD: its entry in the first table */
    int32_t reserved;
} fpc_op_lut;

enum { FPC_LOOK_UP_RGBX_PAD = -1 };

/* Pillow's convert("L"). */
typedef struct fpc_op_gray {
    int32_t channels; /* of the result: 1, or 3 that are equal */
} fpc_op_gray;

/* Pillow's ImageEnhance: the image blended with another one that is made of it. */
typedef struct fpc_op_blend {
    double factor; /* finite as float32; 1 is the image itself */
} fpc_op_blend;

/* Pillow's HSV, the hue turned, and back. */
typedef struct fpc_op_hue {
    int32_t shift; /* is added to the hue modulo 256; 0 to 255 */
} fpc_op_hue;

/* Pillow's transform: (x, y) comes from (a x + b y + c, d x + e y + f), in perspective divided by g x + h y + 1. */
typedef struct fpc_op_warp {
    int32_t height, width;  /* of the result */
    int32_t filter;         /* FPC_NEAREST, FPC_BILINEAR or FPC_BICUBIC */
    int32_t fill[4];        /* each channel's value outside of the image, 0 to 255, and the fourth byte's */
    double coefficients[8]; /* a to h, finite; g and h for a perspective alone */
} fpc_op_warp;

/* Pillow's box blurs, by their radii along rows and down columns. */
typedef struct fpc_op_blur {
    double x, y; /* 0 to 2**20; Pillow has them as float32 */
} fpc_op_blur;

/* torchvision's gaussian_blur: torch's convolution of the image, mirrored at its edges, in float32, where torch adds up
 * the kernel's products row by row, each fused with its sum. */
typedef struct fpc_op_torch_blur {
    const float *weights;  /* `columns` along rows, then `rows` down columns: from 0 to 1, each of the two with a sum of
                            * 1; the kernel's are their products */
    int32_t columns, rows; /* of the kernel: odd, half of them less than the image's */
} fpc_op_torch_blur;

/* torchvision's adjust_hue on tensors. */
typedef struct fpc_op_tensor_hue {
    float by; /* -0.5 to 0.5, of a whole turn */
} fpc_op_tensor_hue;

/* torchvision's affine grid and torch's grid_sample: as fpc_grid_sample_planes has them. */
typedef struct fpc_op_sample {
    int32_t height, width; /* of the result, below 2**22 */
    int32_t filter;        /* FPC_NEAREST or FPC_BILINEAR */
    int32_t filled;        /* 0: black */
    float theta[6];        /* finite */
    float fill[3];         /* each channel's, 0 to 255 */
} fpc_op_sample;

/* How torchvision computes with uint8 tensors. */
enum {
    FPC_FUSED = 1, /* a product is added without being rounded, as torch does where the processor has FMA */
    FPC_V1 = 2     /* as torchvision.transforms, whose sums are in another order than those of its v2 */
};

typedef struct fpc_operation {
    int32_t kind;  /* fpc_kind: says which of the structs is there, if any */
    int32_t flags; /* FPC_OP_TENSOR_...: FPC_FUSED, FPC_V1 */
    union {
        fpc_box crop;
        fpc_op_resize resize;
        fpc_op_pad pad;
        fpc_op_lut lut;
        fpc_op_gray gray;
        int32_t permutation[3]; /* of each channel of the result the input's: 0, 1 and 2, each once; gray stays gray */
        fpc_op_blend blend;
        fpc_op_hue hue;
        fpc_op_warp warp;
        fpc_op_blur blur;
        fpc_op_torch_blur torch_blur;
        fpc_op_tensor_hue tensor_hue;
        fpc_op_sample sample;
    };
} fpc_operation;

/* ---- sinks ----------------------------------------------------------------------------------------------------- */

typedef enum fpc_dtype { FPC_UINT8 = 1, FPC_FLOAT32, FPC_FLOAT16, FPC_BFLOAT16 } fpc_dtype;

/* Arithmetic of floating sinks. */
enum {
    FPC_NORMALIZE = 1, /* (v - mean) / std in float32, as Normalize does */
    FPC_MULTIPLY = 2,  /* x * (1 / 255), as v2's ToDtype does, in place of x / 255, as ToTensor gives it */
    FPC_BY_FACTOR = 4  /* with FPC_NORMALIZE: (x - mean) * std, as albumentations' Normalize computes it */
};

/* Four channels, of a source of pixels and of a sink of bytes, are RGB as Pillow's images have it in memory: with a
 * fourth byte after red, green and blue that is no part of the image. Pillow's functions leave different things in
 * it: 255, 0, what was there, or that times a factor. A job that has such a sink leaves the same (rgbx_pad.c has the
 * rules); arrays and files come with 255. */

/* Memory that the pixels go to. Strides are in bytes, of any sign; element (y, x, c) is at
 * data + y*row + x*column + c*channel. Floating sinks get values in float32 by `flags`, for the two 16-bit types
 * rounded to nearest even. */
typedef struct fpc_sink {
    void *data;
    int64_t row_stride, column_stride, channel_stride;
    int32_t height, width, channels; /* of the pixels: checked against what the operations give; 4 of uint8 alone,
                                      * with a column_stride of 4 and a channel_stride of 1 */
    int32_t dtype;                   /* fpc_dtype */
    int32_t flags;                   /* FPC_NORMALIZE, FPC_MULTIPLY, FPC_BY_FACTOR, or 0 */
    float mean[3], std[3];
} fpc_sink;

/* ---- jobs ------------------------------------------------------------------------------------------------------ */

/* Pixels (uint8, `channels` of 1, 3 or 4) in place of a file. */
typedef struct fpc_pixels {
    const uint8_t *data;
    int64_t row_stride, column_stride, channel_stride; /* bytes, of any sign */
    int32_t height, width, channels;
} fpc_pixels;

typedef struct fpc_job {
    /* The source: `path`, or `data` and `length`, or `pixels`; the others NULL. */
    /* A file of that name, UTF-8 on Windows; of it `length` bytes from `offset`, 0 for all. Of a packed image only the
     * head and the box's rows are read. */
    const char *path;
    const uint8_t *data;
    const fpc_pixels *pixels;
    int64_t offset;
    int64_t length;
    fpc_box box; /* what is decoded; height 0 for the whole image */
    /* Refused (FPC_UNUSUAL_HEADER) where the file is of another size; 0: any. */
    int32_t expected_height, expected_width;
    int64_t max_pixels; /* of the whole image; 0 for no limit */
    int64_t max_bytes;  /* scratch memory that the image may take; 0 for no limit */
    const fpc_operation *operations;
    int32_t operation_count;
    /* Channels before the operations: 0: 3, gray is repeated, as convert("RGB"). 1: 1, of a PNG with a palette its
     * indices, of a gray one its values; other files are refused. */
    int32_t indices;
    fpc_sink sink;
    /* The outcome. */
    int32_t status;   /* fpc_status */
    int32_t os_error; /* errno, with FPC_IO_ERROR */
    int32_t row;      /* of a packed image the row of MCUs that was read last, which is the one that failed; else -1 */
    int32_t warned;   /* 1 for a JPEG that libjpeg decodes as here, but may warn about; only of jobs that are done */
} fpc_job;

/* Runs one job in the calling thread; returns its status. With any other than FPC_OK the sink's memory is undefined. */
FPC_API int fpc_run(fpc_context *context, fpc_job *job);
/* Runs a job on `count` images in memory, one after the other: from one to the next the pixels are `in_step` bytes
 * further on, and the sink's memory `out_step` bytes. Returns the first status that isn't FPC_OK. */
FPC_API int fpc_run_series(fpc_context *context, fpc_job *job, size_t count, int64_t in_step, int64_t out_step);

/* Without a job, which takes longer to read than this to do: looks bytes up in a table of 256; `out` may be `in`. */
FPC_API void fpc_look_up(const fpc_context *context, const uint8_t *in, size_t count, const uint8_t *table,
                         uint8_t *out);
/* Reverses each row of an image of three channels, from right to left; rows follow each other without gaps. */
FPC_API void fpc_flip_rgb(const fpc_context *context, const uint8_t *in, int32_t height, int32_t width, uint8_t *out);

/* The pixels of an array of Arrow's C data interface, whose address `capsule` points to: `count` pixels of `bytes`
 * bytes, 1 or 4. NULL where the array isn't one of bytes (uint8), or of fours of them (fixed_size_list<uint8>[4]), of
 * that length. */
FPC_API const void *fpc_arrow_pixels(const void *const *capsule, int64_t count, int32_t bytes);

/* Runs a job on pixels of a Pillow image, which shows its `count` pixels in such an array. job->pixels lie in them from
 * `offset` (bytes) on, in rows and columns of whole pixels, whatever their `data`. They go to the image that `sink`
 * shows, and that has the size of job->sink, or, where `sink` is NULL, to `out`; where that is NULL, too, to where the
 * job says. Nothing in the job is changed. FPC_UNSUPPORTED_MODE where an array is another one than it has to be. */
FPC_API int fpc_run_on_image(fpc_context *context, const fpc_job *job, int64_t count, int64_t offset,
                             const void *const *source, const void *const *sink, void *out);

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* A file of a list that is read before the job for it is known. */
typedef struct fpc_file {
    const char *path;       /* as fpc_job has it; NULL where `data` and `size` are given, in memory of the caller's */
    int64_t offset, length; /* of it `length` bytes from `offset`, 0 for all */
    const uint8_t *data;    /* what was read: memory of the fpc_files, until they read others or are cleared */
    int64_t size;
    int64_t max_bytes;     /* more than these aren't read: FPC_TOO_LARGE; 0 for no limit */
    int32_t status;        /* of reading: FPC_OK, FPC_IO_ERROR, FPC_TOO_LARGE, FPC_NO_MEMORY, FPC_BAD_OPERATION */
    int32_t os_error;      /* errno, with FPC_IO_ERROR; EISDIR for a folder, EINVAL for what is no regular file */
    int32_t header_status; /* of fpc_read_header; of reading where it failed; FPC_TRUNCATED below `length` bytes */
    /* In: 1 where the head of a packed image in a file is enough. Out: whether only the head was read. */
    int32_t is_head;
    fpc_header header;
} fpc_file;

/* Memory for the files of one list after the other. */
typedef struct fpc_files fpc_files;

FPC_API fpc_files *fpc_files_new(void);
FPC_API void fpc_files_free(fpc_files *files);
/* Forgets the files, and frees the memory beyond what a batch of photos needs. */
FPC_API void fpc_files_clear(fpc_files *files);
/* Bytes of memory that the fpc_files holds. */
FPC_API size_t fpc_files_bytes(fpc_files *files);
/* Reads each file and its header in the calling thread; what was read before is gone. One call at a time. */
FPC_API void fpc_read_files(fpc_files *files, fpc_file *list, size_t count);

/* ---- packed images --------------------------------------------------------------------------------------------- */

/* JPEGs' coefficients in an arrangement that is read several times as fast, and back: core/packed_format.md. */
typedef struct fpc_packer fpc_packer;

/* Scratch memory of one thread; NULL where there is none, or the machine lacks the instruction set. */
FPC_API fpc_packer *fpc_packer_new(int isa);
FPC_API void fpc_packer_free(fpc_packer *packer);
/* Packs a JPEG: its coefficients, its segments of applications and comments, and the bytes after its end. *packed
 * is memory of the packer's until its next call. Refused, with an fpc_status, where a job refuses the whole JPEG, and
 * where it holds more than one picture. `max_bytes` as fpc_job has it. `about` is kept with what it takes to make the
 * JPEG's own bytes again, which are made and compared; NULL to discard what only they need. */
FPC_API int fpc_pack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t *about,
                     size_t about_size, const uint8_t **packed, size_t *size);
/* Makes the JPEG of a packed image again; where its own bytes were discarded, one that is sequential, in one scan where
 * that is allowed, with the same coefficients, segments, and bytes after its end. *jpeg as *packed. */
FPC_API int fpc_unpack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t **jpeg,
                       size_t *size);
/* Whether a JPEG and a packed image have the same size, colors, sampling, quantization and coefficients: *same is 0 or
 * 1. Another status than FPC_OK where one of them can't be read. */
FPC_API int fpc_same_coefficients(fpc_packer *packer, const uint8_t *data, size_t length, const uint8_t *packed,
                                  size_t packed_length, int64_t max_bytes, int *same);

/* ---- arrays ---------------------------------------------------------------------------------------------------- */

/* A raw array in a file: after a header, which has to be the one that is given, `planes` of `height` rows of `width`
 * bytes each. Of every plane the same window goes to `out`, row after row and plane after plane. */
typedef struct fpc_array {
    const char *path; /* as fpc_job has it */
    /* The header's offset; header and array have at most `length` bytes, 0 for all there are. */
    int64_t offset, length;
    const uint8_t *header;
    int64_t header_size; /* at most FPC_LONGEST_HEADER */
    int64_t planes, height, width;
    /* The window; left and columns in bytes. Rows 0: nothing is read but the header. */
    int64_t top, left, rows, columns;
    void *out;
    int32_t item;     /* bytes of an item whose byte order is reversed: 2, 4 or 8; 1 for none */
    int32_t status;   /* FPC_OK, FPC_UNUSUAL_HEADER (another one), FPC_TRUNCATED, FPC_BAD_REGION, FPC_TOO_LARGE, … */
    int32_t os_error; /* errno, with FPC_IO_ERROR */
    int32_t reserved;
} fpc_array;

#define FPC_LONGEST_HEADER (1 << 20)

/* Reads each in the calling thread. With another status than FPC_OK the memory of `out` is undefined. */
FPC_API void fpc_read_arrays(fpc_context *context, fpc_array *list, size_t count);

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* torch's grid_sample(padding_mode="zeros", align_corners=False) of uint8 tensors (N, C, H, W) of 1 or 3 channels, and
 * of ones where there is a fill: the part of a point that comes from outside becomes it, as torchvision's tensor
 * backend has it.
 *
 * shape: images, channels, height, width, and the result's height and width.
 * theta: torchvision's affine grid, where the image goes from -1 to 1: pixel (x, y) of the result, counted from its
 *        middle, shows (theta[0] x + theta[2] y + theta[4], theta[1] x + theta[3] y + theta[5]); products and sums are
 *        each rounded.
 * grid: in its place such a point for each pixel, x first; the same for all images.
 * fill: a value for each channel, 0 to 255; NULL for black.
 * out: bytes, rounded to nearest even, or floats. */
enum {
    FPC_GRID_SAMPLE_BILINEAR = 1,
    FPC_GRID_SAMPLE_FUSED = 2, /* as torch with FMA */
    FPC_GRID_SAMPLE_FLOATS = 4,
    FPC_GRID_SAMPLE_V2 = 8 /* mixed with the fill as torchvision's v2 does it, and not its v1 */
};
FPC_API int fpc_grid_sample_planes(fpc_context *context, const uint8_t *in, const int32_t shape[6], const float *theta,
                                   const float *grid, const float *fill, int flags, void *out);

/* FPC_OP_TENSOR_GRAY (three channels to one), _SATURATION, _CONTRAST, _HUE, _AUTOCONTRAST or FPC_OP_EQUALIZE of uint8
 * tensors (N, C, H, W), which `shape` says, in up to a third less time than by fpc_run_series; `out` is other memory.
 * FPC_BAD_OPERATION for what torchvision leaves as it is; then the memory of `out` is undefined. */
FPC_API int fpc_change_planes(const fpc_context *context, const fpc_operation *operation, const uint8_t *in,
                              const int32_t shape[4], uint8_t *out);
/* Images of `count` bytes, times weights from 0 to 1 whose sum is 1, added up in float32 in their order and cut off. */
FPC_API int fpc_mix_planes(const fpc_context *context, const uint8_t *const *images, const float *weights,
                           int image_count, int64_t count, uint8_t *out);

/* Draws COCO's run lengths (pycocotools' text), zeros and ones in turn, which have to be `size` bytes. */
FPC_API int fpc_draw_runs(const uint8_t *text, size_t length, uint8_t *out, size_t size);
/* Planes that lie column after column, row after row; where `any` isn't 0, one plane of all: 1 where one isn't 0.
 * shape: planes, height, width. */
FPC_API int fpc_turn_planes(fpc_context *context, const uint8_t *in, const int32_t shape[3], int any, uint8_t *out);

/* ---- pools ----------------------------------------------------------------------------------------------------- */

typedef struct fpc_pool fpc_pool;
typedef struct fpc_task fpc_task;

/* A pool in which `threads`, at least 1, work at once, the waiting caller among them; NULL where it can't be made.
 * Several callers may run, start and read at once: their jobs are done in the order in which they came, files first. */
FPC_API fpc_pool *fpc_pool_new(int threads, int isa);
/* Runs all jobs, each once, on the pool's threads; returns when all are done. */
FPC_API void fpc_pool_run(fpc_pool *pool, fpc_job *jobs, size_t count);
/* Starts jobs and returns at once. The task is in *cell before the first begins; NULL for no jobs, or no memory. */
FPC_API void fpc_pool_start(fpc_pool *pool, fpc_job *jobs, size_t count, fpc_task **cell);
/* Returns when the task's jobs are done, and sets *cell to NULL; at once where it is NULL. Several callers may wait. */
FPC_API void fpc_pool_wait(fpc_pool *pool, fpc_task **cell);
/* fpc_read_files on the pool's threads. One call at a time of the files'. */
FPC_API void fpc_pool_read(fpc_pool *pool, fpc_files *files, fpc_file *list, size_t count);
/* fpc_read_arrays on the pool's threads. */
FPC_API void fpc_pool_arrays(fpc_pool *pool, fpc_array *list, size_t count);
/* Ends the threads, when they have done what there is; in a child of fork, which has none, forget the memory alone. */
FPC_API void fpc_pool_free(fpc_pool *pool);
FPC_API void fpc_pool_forget(fpc_pool *pool);

#endif
