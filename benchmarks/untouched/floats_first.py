"""A dataset of the script's own with v1 transforms of floats after `ToTensor`."""

from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Photos(Dataset):
    """Files and the numbers of their folders."""

    def __init__(self, files, transform):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = Image.open(self.files[index]).convert("RGB")
        return self.transform(image), index % 10


def main():
    """Runs an epoch."""
    args = arguments()
    transform = transforms.Compose(
        [
            transforms.ToTensor(),
            transforms.Resize(256),
            transforms.RandomCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = Photos(photos_in(args.photos), transform)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    measured(lambda: loader)


if __name__ == "__main__":
    main()
