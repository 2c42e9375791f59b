/* fastpipe_core.h: the interface of the core, but for the calls on tensors, which fastpipe_core_tensors.h has.
 *
 * The core turns a JPEG, a PNG, a packed image or pixels into finished pixels in memory that the caller owns, and
 * applies operations on the way. It is C11 without dependencies, and keeps no state but a context's scratch memory.
 * Several threads may call every function at once, each with its own context. Sizes and boxes are in pixels.
 *
 * The reference is Pillow (and torchvision on PIL images): the pixels are equal to Pillow's bit for bit, or the job is
 * refused with a reason, and another decoder decides about the file. One exception: if the checksums of a PNG's chunks
 * are right, nothing below the box is inflated. Damage there, for which Pillow refuses the file, isn't noticed.
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

#define FPC_ABI 25 /* grows with every change of a struct below */

/* ---- outcomes ------------------------------------------------------------------------------------------------- */

typedef enum fpc_status {
    FPC_OK = 0,
    /* Refused: the file may be sound; the next backend decides. */
    FPC_UNKNOWN_FORMAT,   /* begins neither as a JPEG or PNG nor as a packed image */
    FPC_UNUSUAL_HEADER,   /* a segment that Pillow may read differently, or a required one is missing */
    FPC_UNSUPPORTED_MODE, /* JPEG: arithmetic coding, lossless, 12 bits, hierarchical; PNG: 16 bits, interlaced, APNG */
    FPC_UNSUPPORTED_COLOR, /* CMYK, YCCK, two components, odd sampling */
    FPC_BAD_TABLE,         /* a Huffman or quantization table, or a palette, is missing, impossible or too short */
    FPC_BAD_SCAN,          /* scans that don't give every coefficient once, or an impossible scan script */
    FPC_BAD_CODE,          /* compressed data that isn't a valid code, or that exceeds the image */
    FPC_TRUNCATED,         /* the data ends early, or without an end-of-image marker or chunk */
    FPC_BAD_MARKER,        /* a marker or a chunk that doesn't belong where it stands */
    FPC_BAD_CHECKSUM,      /* a checksum of a PNG or a packed image is wrong */
    FPC_CONTRADICTION,     /* a packed image's head and its segments say different things */
    FPC_TOO_LARGE,         /* more pixels, bytes or scans than the caller allows */
    FPC_BAD_REGION,        /* the box isn't inside the image, or has no pixel */
    FPC_BAD_OPERATION,     /* an operation or sink that the core lacks, or invalid arguments */
    /* Failed. */
    FPC_NO_MEMORY,
    FPC_IO_ERROR, /* errno is in fpc_job.os_error */
    /* Left to torch: torch rounds some of these pixels one way or the other, by their position in memory. */
    FPC_UNSURE,
    FPC_OTHER_BYTES, /* packing: encoding these coefficients, codes and scans gives other bytes than the file's */
    FPC_STATUS_COUNT
} fpc_status;

/* One sentence in English for a status; "unknown status" for another number. */
FPC_API const char *fpc_status_text(int status);

/* FPC_ABI of the loaded library. */
FPC_API int fpc_abi(void);

/* How the library was built: the compiler and its version, and "hardened" if CMake's FPC_HARDEN was on. */
FPC_API const char *fpc_build(void);

/* ---- instruction sets ------------------------------------------------------------------------------------------ */

/* FPC_ISA_AVX512 is AVX2 plus AVX-512's VNNI on vectors of the same width, and AVX-512's VBMI if the machine has it. */
typedef enum fpc_isa { FPC_ISA_BEST = 0, FPC_ISA_PORTABLE, FPC_ISA_AVX2, FPC_ISA_NEON, FPC_ISA_AVX512 } fpc_isa;

/* The instruction set that FPC_ISA_BEST means on this machine; FPC_ISA_PORTABLE if it has none of the others. */
FPC_API int fpc_best_isa(void);

/* ---- contexts -------------------------------------------------------------------------------------------------- */

typedef struct fpc_context fpc_context;
/* Makes the scratch memory of one thread. NULL if there is no memory, or the machine lacks the instruction set. */
FPC_API fpc_context *fpc_context_new(int isa);
/* Frees a context; leaves it in a child of fork, where it may be in any state. */
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

/* fastpipe.types.Header's fields, read up to a JPEG's first scan, a PNG's first IDAT chunk or a packed image's rows. */
typedef struct fpc_header {
    int32_t height, width;
    int32_t components; /* 1 to 4; 1 for an image with a palette */
    int32_t bit_depth;
    int32_t color;         /* fpc_color; for a JPEG by libjpeg's rule (jdapimin.c, default_decompress_parms) */
    int32_t sampling[4];   /* JPEG: each component's factors as in the file: horizontal << 4 | vertical */
    int32_t progressive;   /* 1 for a progressive JPEG or an interlaced PNG, else 0 */
    int32_t orientation;   /* EXIF's orientation, 1 to 8; 1 if the file gives none, or an invalid one */
    int32_t multi_picture; /* 1 if a JPEG has an MPF segment: Pillow may call the file MPO */
    int32_t plain;         /* 1 if a fast reader may give Pillow's pixels: as Header.plain */
    int32_t format;        /* fpc_format */
    int32_t transparency;  /* PNG: 1 if there is a tRNS chunk */
    int32_t animated;      /* 1 for an APNG */
    int64_t data_offset;   /* position of the first scan's data, or of the first IDAT chunk, in bytes */
} fpc_header;

/* Reads the header. `data` may hold only the first bytes of the file; FPC_TRUNCATED means that more are needed,
 * FPC_UNUSUAL_HEADER that Pillow has to read the file. */
FPC_API int fpc_read_header(const uint8_t *data, size_t length, fpc_header *header);

/* The position after a JPEG's end marker if every decoder reaches it without an error, whatever the scans' bits are;
 * 0 if that isn't certain, or if coefficients are missing. */
FPC_API int64_t fpc_jpeg_end(const uint8_t *data, size_t length);

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
    /* torchvision's operations on uint8 tensors, rounded as `flags` says (FPC_FUSED, FPC_V1). */
    FPC_OP_TENSOR_GRAY,         /* gray: rgb_to_grayscale */
    FPC_OP_TENSOR_SATURATION,   /* blend: adjust_saturation */
    FPC_OP_TENSOR_CONTRAST,     /* blend: adjust_contrast; the sum of the image's gray values is at most 2**24 */
    FPC_OP_TENSOR_SHARPNESS,    /* blend: adjust_sharpness; an image of fewer than three rows or columns is unchanged */
    FPC_OP_TENSOR_HUE,          /* turn: adjust_hue of v2 */
    FPC_OP_TENSOR_AUTOCONTRAST, /* autocontrast */
    FPC_OP_TENSOR_SAMPLE,       /* sample: affine and rotate; `filter` is FPC_BILINEAR or FPC_NEAREST */
    FPC_OP_TORCH_BLUR,          /* torch_blur: gaussian_blur, also of PIL images */
    FPC_OP_PERMUTE,             /* permutation: permute_channels, also of PIL images */
    FPC_OP_FLOAT_RESIZE,        /* resize: torch's, bilinear, of floats from 0 to 1; the last operation */
    FPC_OP_CV_RESIZE,           /* cv_resize: OpenCV's resize, INTER_LINEAR */
    FPC_OP_COUNT
} fpc_kind;

/* The pass that a resize begins with; Pillow's choice changed in its version 13. */
typedef enum fpc_pass_order {
    FPC_HORIZONTAL_FIRST = 0,
    FPC_VERTICAL_FIRST,
    FPC_FEWER_ROWS_FIRST, /* vertical if more rows are removed than twice the columns removed, else horizontal */
    FPC_TORCH_PASSES /* torch's antialiased interpolate of uint8 tensors instead of Pillow's resize: horizontal first,
                      * 16-bit weights; FPC_BILINEAR and FPC_BICUBIC, only of a whole image */
} fpc_pass_order;

/* Pillow's resize of a whole input, from the part of it that is there, to a part of the output. */
typedef struct fpc_op_resize {
    int32_t in_height, in_width;   /* of the whole input; both 0 if all of it is there: then x1 and y1 aren't read */
    int32_t in_top, in_left;       /* where the pixels that are there begin in the whole input */
    int32_t out_height, out_width; /* of the whole output */
    fpc_box window;                /* the part of the output to compute */
    /* Not read by FPC_OP_FLOAT_RESIZE. */
    int32_t filter;        /* fpc_filter */
    int32_t pass_order;    /* fpc_pass_order */
    double x0, y0, x1, y1; /* the source box in the whole input, as `box` of Pillow's resize */
} fpc_op_resize;

/* A resize of floats: FUSED: a multiply-add is rounded once; FUSED_REST: those after groups of four are. INTERLEAVED:
 * the result is of pixels. FROM_BYTES, TO_BYTES: the input is of bytes; the result is, rounded to nearest even. HFLIP,
 * VFLIP: the result is mirrored. MULTIPLY: as FPC_MULTIPLY. These three are for FPC_OP_FLOAT_RESIZE alone. CUBIC: the
 * filter is bicubic; FUSED_WEIGHTS: its weights' products aren't rounded before they are added. These two are for
 * fpc_resize_floats alone. */
enum { FPC_RESIZE_FUSED = 1, FPC_RESIZE_FUSED_REST = 2, FPC_RESIZE_INTERLEAVED = 4, FPC_RESIZE_FROM_BYTES = 8 };
enum { FPC_RESIZE_TO_BYTES = 16, FPC_RESIZE_HFLIP = 32, FPC_RESIZE_VFLIP = 64, FPC_RESIZE_MULTIPLY = 128 };
enum { FPC_RESIZE_CUBIC = 256, FPC_RESIZE_FUSED_WEIGHTS = 512 };

typedef struct fpc_op_pad {
    int32_t left, top, right, bottom;
    int32_t mode;    /* fpc_padding */
    int32_t fill[4]; /* FPC_CONSTANT: the value of each channel and of the fourth byte, 0 to 255 */
} fpc_op_pad;

/* Looks values up in tables. */
typedef struct fpc_op_lut {
    const uint8_t *table; /* 256 bytes for each channel, one table after the other */
    int32_t rgbx_pad;     /* the new fourth byte, 0 to 255; FPC_LOOK_UP_RGBX_PAD: looked up in the first table */
    int32_t reserved;
} fpc_op_lut;

enum { FPC_LOOK_UP_RGBX_PAD = -1 };

/* Pillow's convert("L"). */
typedef struct fpc_op_gray {
    int32_t channels; /* channels of the result: 1, or 3 equal ones */
} fpc_op_gray;

/* Pillow's ImageEnhance: the image blended with a second image that is computed from it. */
typedef struct fpc_op_blend {
    double factor; /* finite as float32; 1 gives the image itself */
} fpc_op_blend;

/* Converts to Pillow's HSV, turns the hue, and converts back. */
typedef struct fpc_op_hue {
    int32_t shift; /* added to the hue modulo 256; 0 to 255 */
} fpc_op_hue;

/* Pillow's transform: pixel (x, y) of the result shows the input at (a x + b y + c, d x + e y + f); for a perspective
 * both numbers are divided by g x + h y + 1. */
typedef struct fpc_op_warp {
    int32_t height, width;  /* of the result */
    int32_t filter;         /* FPC_NEAREST, FPC_BILINEAR or FPC_BICUBIC */
    int32_t fill[4];        /* the value outside of the image of each channel and of the fourth byte, 0 to 255 */
    double coefficients[8]; /* a to h, finite; g and h only for a perspective */
} fpc_op_warp;

/* Pillow's box blurs, with a radius along rows and one down columns. */
typedef struct fpc_op_blur {
    double x, y; /* 0 to 2**20; Pillow keeps them as float32 */
} fpc_op_blur;

/* torchvision's gaussian_blur: torch's convolution in float32 of the image, mirrored at its edges. torch adds up the
 * kernel's products row by row, each with a fused multiply-add. */
typedef struct fpc_op_torch_blur {
    const float *weights;  /* `columns` weights along rows, then `rows` weights down columns, from 0 to 1; either list
                            * has the sum 1; the kernel is their outer product */
    int32_t columns, rows; /* of the kernel: odd; half of each is less than the image's size */
} fpc_op_torch_blur;

/* torchvision's adjust_hue on tensors. */
typedef struct fpc_op_tensor_hue {
    float by; /* -0.5 to 0.5 turns */
} fpc_op_tensor_hue;

/* torchvision's affine grid and torch's grid_sample, as in fpc_grid_sample_planes. */
typedef struct fpc_op_sample {
    int32_t height, width; /* of the result, below 2**22 */
    int32_t filter;        /* FPC_NEAREST or FPC_BILINEAR */
    int32_t filled;        /* 0: outside is black; 1: outside has the value `fill` */
    float theta[6];        /* finite */
    float fill[3];         /* the value of each channel, 0 to 255 */
} fpc_op_sample;

/* OpenCV's resize by INTER_LINEAR, but for halves of an image of even sides, for which OpenCV takes means. */
typedef struct fpc_op_cv_resize {
    int32_t height, width; /* of the result, below 2**22 */
} fpc_op_cv_resize;

/* How torchvision computes on uint8 tensors. */
enum {
    FPC_FUSED = 1, /* multiply-adds are fused (rounded once), as in torch if the processor has FMA */
    FPC_V1 = 2     /* as torchvision.transforms, which adds in another order than v2 */
};

typedef struct fpc_operation {
    int32_t kind;  /* fpc_kind: says which struct of the union is used, if any */
    int32_t flags; /* FPC_FUSED, FPC_V1; only for FPC_OP_TENSOR_...; FPC_RESIZE_... for FPC_OP_FLOAT_RESIZE */
    union {
        fpc_box crop;
        fpc_op_resize resize;
        fpc_op_pad pad;
        fpc_op_lut lut;
        fpc_op_gray gray;
        int32_t permutation[3]; /* result channel i is input channel permutation[i]; 0, 1, 2 once each; gray is kept */
        fpc_op_blend blend;
        fpc_op_hue hue;
        fpc_op_warp warp;
        fpc_op_blur blur;
        fpc_op_torch_blur torch_blur;
        fpc_op_tensor_hue tensor_hue;
        fpc_op_sample sample;
        fpc_op_cv_resize cv_resize;
    };
} fpc_operation;

/* ---- sinks ----------------------------------------------------------------------------------------------------- */

typedef enum fpc_dtype { FPC_UINT8 = 1, FPC_FLOAT32, FPC_FLOAT16, FPC_BFLOAT16 } fpc_dtype;

/* Arithmetic of sinks of floats. */
enum {
    FPC_NORMALIZE = 1, /* (v - mean) / std in float32, as Normalize does */
    FPC_MULTIPLY = 2,  /* x * (1 / 255), as v2's ToDtype, instead of x / 255, as ToTensor */
    FPC_BY_FACTOR = 4  /* with FPC_NORMALIZE: (x - mean) * std, as albumentations' Normalize */
};

/* Four channels, in a source of pixels and in a sink of bytes, are RGB as Pillow stores it: after red, green and blue
 * comes a fourth byte that is no part of the image. Pillow's functions set this byte to 255 or 0, keep it, or multiply
 * it by a factor. A job with a sink of four channels sets it as Pillow does (rgbx_pad.c). It starts as 255. */

/* Memory that receives the pixels. Strides are in bytes and may be negative; element (y, x, c) is at data + y*row +
 * x*column + c*channel. Sinks of floats get values computed in float32 as `flags` says; the two 16-bit types are
 * rounded to nearest even. */
typedef struct fpc_sink {
    void *data;
    int64_t row_stride, column_stride, channel_stride;
    int32_t height, width, channels; /* of the pixels: must be what the operations give; 4 channels only of uint8, with
                                      * a column_stride of 4 and a channel_stride of 1 */
    int32_t dtype;                   /* fpc_dtype */
    int32_t flags;                   /* FPC_NORMALIZE, FPC_MULTIPLY, FPC_BY_FACTOR, or 0 */
    float mean[3], std[3];
} fpc_sink;

/* ---- jobs ------------------------------------------------------------------------------------------------------ */

/* Pixels (uint8, 1, 3 or 4 channels) instead of a file. */
typedef struct fpc_pixels {
    const uint8_t *data;
    int64_t row_stride, column_stride, channel_stride; /* in bytes, may be negative */
    int32_t height, width, channels;
} fpc_pixels;

typedef struct fpc_job {
    /* The source: `path`, or `data` and `length`, or `pixels`; the others are NULL. */
    /* A file's name, UTF-8 on Windows. `length` bytes of the file are read from `offset` on, 0 for all. Of a packed
     * image only the head and the rows of the box are read. */
    const char *path;
    const uint8_t *data;
    const fpc_pixels *pixels;
    int64_t offset, length;
    fpc_box box; /* the part to decode; height 0 for the whole image */
    /* The job is refused (FPC_UNUSUAL_HEADER) if the file has another size; 0: any size. */
    int32_t expected_height, expected_width;
    int64_t max_pixels; /* in the whole image; 0 for no limit */
    int64_t max_bytes;  /* of scratch memory for the image; 0 for no limit */
    const fpc_operation *operations;
    int32_t operation_count;
    /* Channels before the operations. 0: 3 channels, gray repeated, as convert("RGB"). 1: 1 channel, the indices of a
     * PNG with a palette, the values of a gray one, or a JPEG's luma; other files are refused. */
    int32_t indices;
    fpc_sink sink;
    /* The outcome. */
    int32_t status;   /* fpc_status */
    int32_t os_error; /* errno, with FPC_IO_ERROR */
    int32_t row;      /* packed image: the row of MCUs read last (if the job failed: the one that failed); else -1 */
    int32_t warned;   /* 1 if libjpeg may warn about a JPEG whose pixels are right; only set if the job is done */
} fpc_job;

/* Runs one job in the calling thread and returns its status. If that isn't FPC_OK, the sink's content is undefined. */
FPC_API int fpc_run(fpc_context *context, fpc_job *job);
/* Runs a job on `count` images in memory, one after the other. From one image to the next the source's pixels lie
 * `in_step` bytes further on, and the sink's memory `out_step` bytes. Returns the first status that isn't FPC_OK. */
FPC_API int fpc_run_series(fpc_context *context, fpc_job *job, size_t count, int64_t in_step, int64_t out_step);

/* Looks bytes up in a table of 256; `out` may be `in`. It takes no job, which would take longer than the look-up. */
FPC_API void fpc_look_up(const fpc_context *context, const uint8_t *in, size_t count, const uint8_t *table,
                         uint8_t *out);
/* Mirrors an image of three channels left to right; its rows follow each other without gaps. */
FPC_API void fpc_flip_rgb(const fpc_context *context, const uint8_t *in, int32_t height, int32_t width, uint8_t *out);

/* Decodes a box of a PNG of 16 bits a sample, gray (1 channel) or RGB (3), to samples in the machine's byte order.
 * Sample (y, x, c) is written at out + y * row_stride / 2 + x * channels + c. Returns an fpc_status: other files are
 * refused, and with FPC_UNSUPPORTED_COLOR those with another number of channels. `max_bytes` is as in fpc_job. */
FPC_API int fpc_decode_uint16(fpc_context *context, const uint8_t *data, size_t length, const fpc_box *box,
                              int32_t channels, int64_t max_bytes, uint16_t *out, int64_t row_stride);

/* The pixels of an array of Arrow's C data interface, whose address `capsule` points to: `count` pixels of `bytes`
 * bytes, 1 or 4. NULL if the array hasn't this length, or isn't uint8 or fixed_size_list<uint8>[4]. */
FPC_API const void *fpc_arrow_pixels(const void *const *capsule, int64_t count, int32_t bytes);

/* Runs a job on a Pillow image, whose `count` pixels are in the Arrow array `source`. job->pixels begin `offset` bytes
 * after the array's first pixel, and have strides of whole pixels; job->pixels.data isn't read. The result goes to the
 * image of the Arrow array `sink`, of the size of job->sink; if `sink` is NULL, to `out`; if `out` is NULL, too, to
 * job->sink.data. The job isn't changed. FPC_UNSUPPORTED_MODE if an array isn't as required. */
FPC_API int fpc_run_on_image(fpc_context *context, const fpc_job *job, int64_t count, int64_t offset,
                             const void *const *source, const void *const *sink, void *out);

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* A file of a list, read before its job is known. */
typedef struct fpc_file {
    const char *path;       /* as in fpc_job; NULL if the caller gives `data` and `size` in its own memory */
    int64_t offset, length; /* `length` bytes of the file are read from `offset` on, 0 for all */
    const uint8_t *data;    /* what was read: memory of the fpc_files, valid until they read again or are cleared */
    int64_t size;
    int64_t max_bytes;     /* a file of more bytes isn't read: FPC_TOO_LARGE; 0 for no limit */
    int32_t status;        /* of reading: FPC_OK, FPC_IO_ERROR, FPC_TOO_LARGE, FPC_NO_MEMORY, FPC_BAD_OPERATION */
    int32_t os_error;      /* errno, with FPC_IO_ERROR; EISDIR for a folder, EINVAL if it isn't a regular file */
    int32_t header_status; /* of fpc_read_header, or of reading if that failed; FPC_TRUNCATED below `length` bytes */
    /* In: 1 if the head of a packed image in a file is enough. Out: 1 if only the head was read. */
    int32_t is_head;
    fpc_header header;
} fpc_file;

/* Memory for lists of files, reused from list to list. */
typedef struct fpc_files fpc_files;
FPC_API fpc_files *fpc_files_new(void);
/* Frees the memory; leaves it in a child of fork, where it may be in any state. */
FPC_API void fpc_files_free(fpc_files *files);
/* Forgets the files, and frees the memory that exceeds what a batch of photos needs. */
FPC_API void fpc_files_clear(fpc_files *files);
/* Bytes of memory that the fpc_files holds. */
FPC_API size_t fpc_files_bytes(fpc_files *files);
/* Reads each file and its header in the calling thread; the files read before are overwritten. One call at a time. */
FPC_API void fpc_read_files(fpc_files *files, fpc_file *list, size_t count);

/* ---- packed images --------------------------------------------------------------------------------------------- */

/* Packs JPEGs' coefficients in a format that is read several times as fast, and unpacks them: core/packed_format.md. */
typedef struct fpc_packer fpc_packer;
/* Makes the scratch memory of one thread; NULL if there is no memory, or the machine lacks the instruction set. */
FPC_API fpc_packer *fpc_packer_new(int isa);
/* Frees a packer; leaves it in a child of fork, where it may be in any state. */
FPC_API void fpc_packer_free(fpc_packer *packer);
/* Packs a JPEG: its coefficients, its application and comment segments, and the bytes after its end. *packed is the
 * packer's memory, valid until its next call. Returns an fpc_status: a JPEG is refused if a job refuses the whole
 * image, or if it holds more than one picture. `max_bytes` is as in fpc_job. If `about` isn't NULL, it is kept together
 * with what rebuilding the JPEG's own bytes takes; the bytes are rebuilt and compared. */
FPC_API int fpc_pack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t *about,
                     size_t about_size, const uint8_t **packed, size_t *size);
/* Makes a JPEG from a packed image: the original bytes, or, if these were discarded, a sequential JPEG, in one scan if
 * allowed, with the same coefficients, segments, and bytes after its end. *jpeg is valid as long as *packed is. */
FPC_API int fpc_unpack(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes, const uint8_t **jpeg,
                       size_t *size);
/* Makes the beginning of the JPEG that fpc_unpack makes: all before its first scan's data. No row is read, unless the
 * original bytes were discarded. */
FPC_API int fpc_unpack_head(fpc_packer *packer, const uint8_t *data, size_t length, int64_t max_bytes,
                            const uint8_t **head, size_t *size);
/* FPC_OK if all of a packed image is there and has the right checksums; nothing is decoded. */
FPC_API int fpc_packed_check(fpc_packer *packer, const uint8_t *data, size_t length);
/* Compares the size, colors, sampling, quantization and coefficients of a JPEG and a packed image: *same is 1 if all
 * are equal, else 0. Another status than FPC_OK if one of them can't be read. */
FPC_API int fpc_same_coefficients(fpc_packer *packer, const uint8_t *data, size_t length, const uint8_t *packed,
                                  size_t packed_length, int64_t max_bytes, int *same);

/* ---- arrays ---------------------------------------------------------------------------------------------------- */

/* A raw array in a file: a header, which must be equal to `header`, then `planes` of `height` rows of `width` bytes
 * each. The same window of every plane goes to `out`, row after row and plane after plane. */
typedef struct fpc_array {
    const char *path; /* as in fpc_job */
    /* The header's position; header and array have at most `length` bytes together, 0 for all up to the file's end. */
    int64_t offset, length;
    const uint8_t *header;
    int64_t header_size; /* at most FPC_LONGEST_HEADER */
    int64_t planes, height, width;
    /* The window; left and columns are in bytes. If `rows` is 0, only the header is read. */
    int64_t top, left, rows, columns;
    void *out;
    int32_t item;     /* size of items whose byte order is reversed: 2, 4 or 8 bytes; 1 for none */
    int32_t status;   /* FPC_OK, FPC_UNUSUAL_HEADER (another one), FPC_TRUNCATED, FPC_BAD_REGION, FPC_TOO_LARGE, … */
    int32_t os_error; /* errno, with FPC_IO_ERROR */
    int32_t reserved;
} fpc_array;

#define FPC_LONGEST_HEADER (1 << 20)

/* ---- masks ----------------------------------------------------------------------------------------------------- */

/* Draws COCO's run lengths (pycocotools' text) as zeros and ones in turn, which must be `size` bytes in all. */
FPC_API int fpc_draw_runs(const uint8_t *text, size_t length, uint8_t *out, size_t size);
/* Copies planes stored column by column to planes stored row by row. If `any` isn't 0, gives one plane for all instead:
 * 1 where any of them isn't 0. shape: planes, height, width. */
FPC_API int fpc_turn_planes(fpc_context *context, const uint8_t *in, const int32_t shape[3], int any, uint8_t *out);

/* ---- pools ----------------------------------------------------------------------------------------------------- */

typedef struct fpc_pool fpc_pool;
typedef struct fpc_task fpc_task;

/* Makes a pool in which `threads` threads, at least 1, work at once, a waiting caller being one of them; NULL on
 * failure. Several callers may run, start and read at once: jobs are done in order, files first. */
FPC_API fpc_pool *fpc_pool_new(int threads, int isa);
/* Runs all jobs, each once, on the pool's threads; returns when all are done. */
FPC_API void fpc_pool_run(fpc_pool *pool, fpc_job *jobs, size_t count);
/* Starts jobs and returns at once. *cell is set to the task before a job begins; NULL for no jobs, or no memory. */
FPC_API void fpc_pool_start(fpc_pool *pool, fpc_job *jobs, size_t count, fpc_task **cell);
/* Returns when the task's jobs are done, and sets *cell to NULL. Several callers may wait. Returns at once if *cell is
 * NULL, and in a child of fork, which has none of the pool's threads. */
FPC_API void fpc_pool_wait(fpc_pool *pool, fpc_task **cell);
/* As fpc_read_files, on the pool's threads. One call at a time for the same `files`. */
FPC_API void fpc_pool_read(fpc_pool *pool, fpc_files *files, fpc_file *list, size_t count);
/* Reads each array on the pool's threads. If its status isn't FPC_OK, the content of `out` is undefined. */
FPC_API void fpc_pool_arrays(fpc_pool *pool, fpc_array *list, size_t count);
/* Ends the threads when all jobs are done. In a child of fork, which has none of the threads, frees only the memory. */
FPC_API void fpc_pool_free(fpc_pool *pool);

#endif
