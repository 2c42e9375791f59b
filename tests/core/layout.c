/* layout.c: what the compiler makes of fastpipe_core.h, for test_library.py. */
#include <stdio.h>

#include "fastpipe_core.h"

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
#define NUMBER(name) printf("%s %d\n", #name, (int)name)

int main(void) {
    SIZE(fpc_header);
    FIELD(fpc_header, height);
    FIELD(fpc_header, width);
    FIELD(fpc_header, components);
    FIELD(fpc_header, bit_depth);
    FIELD(fpc_header, color);
    FIELD(fpc_header, sampling);
    FIELD(fpc_header, progressive);
    FIELD(fpc_header, orientation);
    FIELD(fpc_header, multi_picture);
    FIELD(fpc_header, plain);
    FIELD(fpc_header, format);
    FIELD(fpc_header, transparency);
    FIELD(fpc_header, animated);
    FIELD(fpc_header, data_offset);
    SIZE(fpc_file);
    FIELD(fpc_file, path);
    FIELD(fpc_file, offset);
    FIELD(fpc_file, length);
    FIELD(fpc_file, data);
    FIELD(fpc_file, size);
    FIELD(fpc_file, max_bytes);
    FIELD(fpc_file, status);
    FIELD(fpc_file, os_error);
    FIELD(fpc_file, header_status);
    FIELD(fpc_file, reserved);
    FIELD(fpc_file, header);
    SIZE(fpc_array);
    FIELD(fpc_array, path);
    FIELD(fpc_array, offset);
    FIELD(fpc_array, length);
    FIELD(fpc_array, header);
    FIELD(fpc_array, header_size);
    FIELD(fpc_array, planes);
    FIELD(fpc_array, height);
    FIELD(fpc_array, width);
    FIELD(fpc_array, top);
    FIELD(fpc_array, left);
    FIELD(fpc_array, rows);
    FIELD(fpc_array, columns);
    FIELD(fpc_array, out);
    FIELD(fpc_array, item);
    FIELD(fpc_array, status);
    FIELD(fpc_array, os_error);
    FIELD(fpc_array, reserved);
    SIZE(fpc_operation);
    FIELD(fpc_operation, kind);
    FIELD(fpc_operation, i);
    FIELD(fpc_operation, d);
    FIELD(fpc_operation, table);
    SIZE(fpc_sink);
    FIELD(fpc_sink, data);
    FIELD(fpc_sink, row_stride);
    FIELD(fpc_sink, column_stride);
    FIELD(fpc_sink, channel_stride);
    FIELD(fpc_sink, height);
    FIELD(fpc_sink, width);
    FIELD(fpc_sink, channels);
    FIELD(fpc_sink, dtype);
    FIELD(fpc_sink, normalize);
    FIELD(fpc_sink, mean);
    FIELD(fpc_sink, std);
    SIZE(fpc_pixels);
    FIELD(fpc_pixels, data);
    FIELD(fpc_pixels, row_stride);
    FIELD(fpc_pixels, column_stride);
    FIELD(fpc_pixels, channel_stride);
    FIELD(fpc_pixels, height);
    FIELD(fpc_pixels, width);
    FIELD(fpc_pixels, channels);
    SIZE(fpc_job);
    FIELD(fpc_job, path);
    FIELD(fpc_job, data);
    FIELD(fpc_job, pixels);
    FIELD(fpc_job, offset);
    FIELD(fpc_job, length);
    FIELD(fpc_job, top);
    FIELD(fpc_job, left);
    FIELD(fpc_job, height);
    FIELD(fpc_job, width);
    FIELD(fpc_job, expected_height);
    FIELD(fpc_job, expected_width);
    FIELD(fpc_job, max_pixels);
    FIELD(fpc_job, max_bytes);
    FIELD(fpc_job, operations);
    FIELD(fpc_job, operation_count);
    FIELD(fpc_job, status);
    FIELD(fpc_job, os_error);
    FIELD(fpc_job, indices);
    FIELD(fpc_job, sink);
    NUMBER(FPC_ABI);
    NUMBER(FPC_STATUS_COUNT);
    NUMBER(FPC_OP_COUNT);
    NUMBER(FPC_UNKNOWN_FORMAT);
    NUMBER(FPC_TOO_LARGE);
    NUMBER(FPC_BAD_OPERATION);
    NUMBER(FPC_IO_ERROR);
    NUMBER(FPC_ISA_AVX512);
    NUMBER(FPC_YCCK);
    NUMBER(FPC_LANCZOS);
    NUMBER(FPC_SYMMETRIC);
    NUMBER(FPC_OP_RESIZE);
    NUMBER(FPC_OP_GRAY);
    NUMBER(FPC_OP_PERSPECTIVE);
    NUMBER(FPC_BFLOAT16);
    return 0;
}
