/* status.c: the messages of statuses. */
#include "fastpipe_core.h"

static const char *const TEXTS[FPC_STATUS_COUNT] = {
    [FPC_OK] = "done",
    [FPC_UNKNOWN_FORMAT] = "it begins neither as a JPEG or PNG nor as a packed image",
    [FPC_UNUSUAL_HEADER] = "its header is one that Pillow may read otherwise",
    [FPC_UNSUPPORTED_MODE] =
        "its coding is arithmetic, lossless, hierarchical, interlaced, animated or of more than 8 bits",
    [FPC_UNSUPPORTED_COLOR] = "its colors or their sampling aren't supported, or are none of those that were asked for",
    [FPC_BAD_TABLE] = "a table of codes or factors, or a palette, is missing, impossible or too short",
    [FPC_BAD_SCAN] = "its scans don't bring each coefficient once, or in no possible order",
    [FPC_BAD_CODE] = "its data has codes that don't exist, or is more than the image holds",
    [FPC_TRUNCATED] = "its data ends early",
    [FPC_BAD_MARKER] = "a marker or a chunk stands where it doesn't belong",
    [FPC_BAD_CHECKSUM] = "a checksum is wrong",
    [FPC_CONTRADICTION] = "its head says other colors or another orientation than its segments",
    [FPC_TOO_LARGE] = "it has more pixels, bytes or scans than the limits allow",
    [FPC_BAD_REGION] = "the box isn't inside the image",
    [FPC_BAD_OPERATION] = "an operation or the result's memory doesn't fit the image, or isn't supported",
    [FPC_NO_MEMORY] = "there is not enough memory",
    [FPC_IO_ERROR] = "the file can't be read",
    [FPC_UNSURE] = "torch rounds these pixels in two ways",
    [FPC_OTHER_BYTES] = "its own bytes can't be made again from its coefficients",
};

const char *fpc_status_text(int status) {
    return status >= 0 && status < FPC_STATUS_COUNT ? TEXTS[status] : "unknown status";
}

int fpc_abi(void) { return FPC_ABI; }

#define STRING(value) STRING_OF(value)
#define STRING_OF(value) #value
#if defined(__clang__)
#define COMPILER "clang " STRING(__clang_major__) "." STRING(__clang_minor__) "." STRING(__clang_patchlevel__)
#elif defined(__GNUC__)
#define COMPILER "gcc " STRING(__GNUC__) "." STRING(__GNUC_MINOR__) "." STRING(__GNUC_PATCHLEVEL__)
#elif defined(_MSC_VER)
#define COMPILER "msvc " STRING(_MSC_VER)
#else
#define COMPILER "an unknown compiler"
#endif
#if defined(FPC_HARDENED)
#define HARDENED ", hardened"
#else
#define HARDENED ""
#endif

const char *fpc_build(void) { return COMPILER HARDENED; }
