"""A dataset of the script's own with ColorJitter, grayscale and RandomErasing; it calls each transform itself."""

from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Photos(Dataset):
    """Files; the transforms are attributes."""

    def __init__(self, files):
        self.files = files
        self.crop = transforms.RandomResizedCrop(224, scale=(0.2, 1.0))
        self.jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
        self.augment = transforms.Compose([self.jitter, transforms.RandomGrayscale(p=0.2)])
        self.finish = transforms.Compose(
            [
                transforms.ToTensor(),
                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
                transforms.RandomErasing(),
            ]
        )

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = Image.open(self.files[index]).convert("RGB")
        return self.finish(self.augment(self.crop(image))), index


def main():
    """Runs an epoch."""
    args = arguments()
    dataset = Photos(photos_in(args.photos))
    measured(lambda: DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers))


if __name__ == "__main__":
    main()
