"""open_clip's CSV dataset: images and captions; its `Compose` converts to RGB."""

import torch
from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import Compose, InterpolationMode, Normalize, RandomResizedCrop, ToTensor


def _convert_to_rgb(image):
    return image.convert("RGB")


class CsvDataset(Dataset):
    """Files and their captions."""

    def __init__(self, images, captions, transforms, tokenizer):
        self.images, self.captions, self.transforms, self.tokenize = images, captions, transforms, tokenizer

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, index):
        images = self.transforms(Image.open(str(self.images[index])))
        return images, self.tokenize([str(self.captions[index])])[0]


def tokenize(texts):
    """The numbers of each text's letters."""
    made = torch.zeros(len(texts), 77, dtype=torch.long)
    for row, text in zip(made, texts, strict=True):
        row[: len(text)] = torch.tensor([*text.encode()][:77])
    return made


def main():
    """Runs an epoch."""
    args = arguments()
    files = photos_in(args.photos)
    transform = Compose(
        [
            RandomResizedCrop(224, scale=(0.9, 1.0), interpolation=InterpolationMode.BICUBIC),
            _convert_to_rgb,
            ToTensor(),
            Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
        ]
    )
    dataset = CsvDataset(files, [f"photo {number}" for number in range(len(files))], transform, tokenize)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    measured(lambda: loader)


if __name__ == "__main__":
    main()
