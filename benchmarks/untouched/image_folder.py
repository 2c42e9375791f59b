"""ImageNet training of pytorch/examples: ImageFolder with v1's training recipe."""

from _measured import arguments, measured
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    """Runs an epoch."""
    args = arguments()
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_dataset = datasets.ImageFolder(
        args.photos,
        transforms.Compose(
            [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize]
        ),
    )
    loader = DataLoader(train_dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    measured(lambda: loader)


if __name__ == "__main__":
    main()
