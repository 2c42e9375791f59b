/* arrow.c: pixels in an array of Arrow's C data interface, as Pillow's images show themselves.
 * https://arrow.apache.org/docs/format/CDataInterface.html */
#include "fastpipe_core.h"

typedef struct arrow_array {
    int64_t length, null_count, offset, buffer_count, child_count;
    const void **buffers;
    struct arrow_array **children, *dictionary;
    void (*release)(struct arrow_array *array);
    void *private_data;
} arrow_array;

static const void *bytes_of(const arrow_array *array, int64_t length) {
    if (array->length != length || array->offset != 0 || array->null_count > 0) return NULL;
    if (array->buffer_count != 2 || array->child_count != 0 || array->dictionary || !array->buffers) return NULL;
    return array->buffers[1];
}

const void *fpc_arrow_pixels(const void *const *capsule, int64_t count, int32_t bytes) {
    const arrow_array *array = *capsule;
    if (!array || !array->release || count < 1 || count > INT64_MAX / 4) return NULL;
    if (bytes == 1) return bytes_of(array, count);
    if (bytes != 4 || array->length != count || array->offset != 0 || array->null_count > 0) return NULL;
    if (array->child_count != 1 || !array->children || !array->children[0]) return NULL;
    return bytes_of(array->children[0], 4 * count);
}
