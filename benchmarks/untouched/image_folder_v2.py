"""ImageFolder with a v2 recipe on PIL images, as in torchvision's references."""

import torch
from _measured import arguments, measured
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import v2


def main():
    """Runs an epoch."""
    args = arguments()
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(0.5),
            v2.PILToTensor(),
            v2.ToDtype(torch.float, scale=True),
            v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            v2.ToPureTensor(),
        ]
    )
    loader = DataLoader(
        datasets.ImageFolder(args.photos, transform), args.batch_size, shuffle=True, num_workers=args.workers
    )
    measured(lambda: loader)


if __name__ == "__main__":
    main()
