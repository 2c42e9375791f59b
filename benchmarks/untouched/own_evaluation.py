"""A dataset of the script's own with a v1 evaluation recipe; it opens files as torchvision's `pil_loader` does."""

from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Photos(Dataset):
    """Files without labels."""

    def __init__(self, files, transform):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with open(self.files[index], "rb") as file:
            image = Image.open(file).convert("RGB")
        return {"image": self.transform(image), "index": index}


def main():
    """Runs an epoch."""
    args = arguments()
    transform = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    loader = DataLoader(Photos(photos_in(args.photos), transform), args.batch_size, num_workers=args.workers)
    measured(lambda: loader)


if __name__ == "__main__":
    main()
