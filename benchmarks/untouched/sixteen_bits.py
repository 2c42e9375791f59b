"""Radiographs of 16 bits that Pillow opens and OpenCV resizes, as sets of chest X-rays are read."""

import tempfile
from pathlib import Path

import cv2
import numpy as np
from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader, Dataset

MOST = 4095
COUNT = 32


class Radiographs(Dataset):
    """A centre crop and a resize of normalised samples."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return 2 * len(self.files)

    def __getitem__(self, index):
        image = np.asarray(Image.open(self.files[index % len(self.files)]))
        image = (2 * (image.astype(np.float32) / MOST) - 1.0) * 1024
        side = min(image.shape)
        top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
        image = image[top : top + side, left : left + side]
        image = cv2.resize(image, (224, 224), interpolation=cv2.INTER_AREA)
        return {"img": image[None], "lab": np.zeros(14, np.float32), "idx": index}


def radiographs_of(photos, folder):
    """Gray PNGs of 12 in 16 bits, made of photos, with a sensor's noise."""
    names = [str(folder / f"{number}.png") for number in range(len(photos))]
    for number, (name, photo) in enumerate(zip(names, photos, strict=False)):
        gray = np.asarray(Image.open(photo).convert("L").resize((1024, 960), Image.Resampling.BICUBIC), np.float32)
        gray = gray * 16 + np.random.default_rng(number).normal(0, 6, gray.shape)
        Image.fromarray(gray.clip(0, MOST).astype(np.uint16)).save(name)
    return names


def main():
    """Runs an epoch."""
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        files = radiographs_of(photos_in(args.photos)[:COUNT], Path(folder))
        loader = DataLoader(Radiographs(files), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
