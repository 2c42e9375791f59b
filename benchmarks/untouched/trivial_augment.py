"""torchvision's reference for classification: ImageFolder with TrivialAugmentWide and RandomErasing."""

import torch
from _measured import arguments, measured
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    """Runs an epoch."""
    args = arguments()
    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(176),
            transforms.RandomHorizontalFlip(),
            transforms.TrivialAugmentWide(),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float),
            transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            transforms.RandomErasing(p=0.1),
        ]
    )
    loader = DataLoader(
        datasets.ImageFolder(args.photos, transform), args.batch_size, shuffle=True, num_workers=args.workers
    )
    measured(lambda: loader)


if __name__ == "__main__":
    main()
