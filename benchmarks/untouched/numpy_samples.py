"""Samples that are dicts of numpy arrays of many shapes, as detectors of key points make them."""

import cv2
import numpy as np
from _measured import arguments, measured, photos_in
from torch.utils.data import DataLoader, Dataset

SIZE, OUTPUT, CLASSES, MOST = 512, 128, 80, 128
MEAN, STD = np.array([0.408, 0.447, 0.470], np.float32), np.array([0.289, 0.274, 0.278], np.float32)


class HeatMaps(Dataset):
    """A warped crop, and a heat map for each class."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = cv2.imread(self.files[index])
        height, width = image.shape[:2]
        scale = SIZE / (max(height, width) * np.random.choice(np.arange(0.6, 1.4, 0.1)))
        center = np.array([width / 2, height / 2]) + np.random.uniform(-0.1, 0.1, 2) * max(height, width)
        if np.random.random() < 0.5:
            image, center[0] = image[:, ::-1, :], width - center[0] - 1
        affine = np.array([[scale, 0, SIZE / 2 - scale * center[0]], [0, scale, SIZE / 2 - scale * center[1]]])
        image = cv2.warpAffine(image, affine, (SIZE, SIZE), flags=cv2.INTER_LINEAR)
        image = (image.astype(np.float32) / 255.0 - MEAN) / STD
        heat = np.zeros((CLASSES, OUTPUT, OUTPUT), np.float32)
        sizes, offsets = np.zeros((MOST, 2), np.float32), np.zeros((MOST, 2), np.float32)
        places, are_boxes = np.zeros(MOST, np.int64), np.zeros(MOST, np.uint8)
        for number, middle in enumerate(np.random.uniform(8, OUTPUT - 8, (8, 2))):
            x, y = middle.astype(np.int64)
            bell = np.exp(-(np.arange(-6, 7) ** 2) / 8)
            part = heat[number * 9, y - 6 : y + 7, x - 6 : x + 7]
            np.maximum(part, bell[:, None] * bell, out=part)
            sizes[number], offsets[number] = np.random.uniform(4, 40, 2), middle - (x, y)
            places[number], are_boxes[number] = y * OUTPUT + x, 1
        image = image.transpose(2, 0, 1)
        return {"input": image, "hm": heat, "reg_mask": are_boxes, "ind": places, "wh": sizes, "reg": offsets}


def main():
    """Runs an epoch."""
    args = arguments()
    loader = DataLoader(
        HeatMaps(photos_in(args.photos)), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True
    )
    measured(lambda: loader)


if __name__ == "__main__":
    main()
