"""A dataset of the script's own with torchvision's v2 recipe for PIL images, which ends in a `tv_tensors.Image`."""

import torch
from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


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
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    dataset = Photos(photos_in(args.photos), transform)
    measured(lambda: DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers))


if __name__ == "__main__":
    main()
