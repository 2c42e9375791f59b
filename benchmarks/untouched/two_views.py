"""SimCLR's and MoCo's two views of an image."""

from _measured import arguments, measured
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class TwoCropsTransform:
    """Two random crops of one image as the query and key."""

    def __init__(self, base_transform):
        self.base_transform = base_transform

    def __call__(self, x):
        return [self.base_transform(x), self.base_transform(x)]


def main():
    """Runs an epoch."""
    args = arguments()
    augmentation = [
        transforms.RandomResizedCrop(224, scale=(0.2, 1.0)),
        transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        transforms.RandomGrayscale(p=0.2),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ]
    dataset = datasets.ImageFolder(args.photos, TwoCropsTransform(transforms.Compose(augmentation)))
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    measured(lambda: loader)


if __name__ == "__main__":
    main()
