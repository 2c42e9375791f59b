"""CIFAR's arrays with the usual recipe, in batches of 128."""

import numpy as np
from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Pieces(datasets.CIFAR10):
    """CIFAR-10 of pieces of photos; only how its arrays come about is its own."""

    def __init__(self, files, transform):
        self.root, self.train = "", True
        self.transform, self.target_transform, self.transforms = transform, None, None
        pieces = []
        for file in files[:100]:
            with Image.open(file) as image:
                pixels = np.asarray(image.convert("RGB").resize((320, 320)))
            pieces += list(pixels.reshape(10, 32, 10, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3))
        self.data = np.stack(pieces)
        self.targets = [number % 10 for number in range(len(self.data))]


def main():
    """Runs an epoch."""
    args = arguments()
    transform = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
        ]
    )
    loader = DataLoader(Pieces(photos_in(args.photos), transform), 128, shuffle=True, num_workers=args.workers)
    measured(lambda: loader)


if __name__ == "__main__":
    main()
