"""OpenCV with albumentations, as in segmentation and metric-learning repositories."""

import albumentations as A
import cv2
from _measured import arguments, measured, photos_in
from albumentations.pytorch import ToTensorV2
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    """Files and the numbers of their folders."""

    def __init__(self, files):
        self.files = files
        self.transform = A.Compose(
            [A.RandomResizedCrop((224, 224)), A.HorizontalFlip(), A.Normalize(), ToTensorV2()], seed=7
        )

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = cv2.cvtColor(cv2.imread(self.files[index]), cv2.COLOR_BGR2RGB)
        return self.transform(image=image)["image"], index % 10


def main():
    """Runs an epoch."""
    args = arguments()
    loader = DataLoader(
        Photos(photos_in(args.photos)), args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True
    )
    measured(lambda: loader)


if __name__ == "__main__":
    main()
