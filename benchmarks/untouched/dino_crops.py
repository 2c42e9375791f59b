"""DINO's two global and six local crops: ImageFolder with a transform class that calls several `Compose`s."""

from _measured import arguments, measured
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class DataAugmentation:
    """Eight crops of an image."""

    def __init__(self, global_scale=(0.4, 1.0), local_scale=(0.05, 0.4), local_crops=6):
        flip_and_color_jitter = transforms.Compose(
            [
                transforms.RandomHorizontalFlip(p=0.5),
                transforms.RandomApply(
                    [transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)], p=0.8
                ),
                transforms.RandomGrayscale(p=0.2),
            ]
        )
        normalize = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
        )
        self.global_transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(224, scale=global_scale, interpolation=Image.BICUBIC),
                flip_and_color_jitter,
                normalize,
            ]
        )
        self.local_crops = local_crops
        self.local_transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(96, scale=local_scale, interpolation=Image.BICUBIC),
                flip_and_color_jitter,
                normalize,
            ]
        )

    def __call__(self, image):
        crops = [self.global_transform(image), self.global_transform(image)]
        return crops + [self.local_transform(image) for _ in range(self.local_crops)]


def main():
    """Runs an epoch."""
    args = arguments()
    dataset = datasets.ImageFolder(args.photos, transform=DataAugmentation())
    measured(lambda: DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True))


if __name__ == "__main__":
    main()
