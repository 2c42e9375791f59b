/* frame.c: computes sizes from an image's size and its components' sampling factors (jdinput.c, initial_setup). */
#include <string.h>

#include "jpeg.h"

static int divide_up(int a, int b) { return (a + b - 1) / b; }

static int largest(int a, int b) { return a > b ? a : b; }

int fpc_frame_layout(fpc_frame *frame) {
    const fpc_header *header = &frame->header;
    const int count = header->components;
    frame->largest_horizontal = frame->largest_vertical = 1;
    for (int i = 0; i < count; i++) {
        const fpc_plane *plane = &frame->planes[i];
        if (plane->horizontal < 1 || plane->horizontal > 4 || plane->vertical < 1 || plane->vertical > 4)
            return FPC_UNSUPPORTED_COLOR;
        frame->largest_horizontal = largest(frame->largest_horizontal, plane->horizontal);
        frame->largest_vertical = largest(frame->largest_vertical, plane->vertical);
    }
    frame->mcu_columns = divide_up(header->width, 8 * frame->largest_horizontal);
    frame->mcu_rows = divide_up(header->height, 8 * frame->largest_vertical);
    for (int i = 0; i < count; i++) {
        fpc_plane *plane = &frame->planes[i];
        if (frame->largest_horizontal % plane->horizontal || frame->largest_vertical % plane->vertical)
            return FPC_UNSUPPORTED_COLOR;
        plane->width = divide_up(header->width * plane->horizontal, frame->largest_horizontal);
        plane->height = divide_up(header->height * plane->vertical, frame->largest_vertical);
        plane->blocks_wide = divide_up(plane->width, 8);
        plane->blocks_high = divide_up(plane->height, 8);
    }
    return FPC_OK;
}
