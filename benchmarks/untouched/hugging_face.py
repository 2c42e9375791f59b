"""Hugging Face's example for image classification: `set_transform` with a function of a batch."""

import torch
from _measured import arguments, measured, photos_in
from datasets import Dataset, Image
from torch.utils.data import DataLoader
from torchvision.transforms import Compose, Normalize, RandomHorizontalFlip, RandomResizedCrop, ToTensor


def collate_fn(examples):
    """The tensors that a model takes."""
    pixel_values = torch.stack([example["pixel_values"] for example in examples])
    return {"pixel_values": pixel_values, "labels": torch.tensor([example["label"] for example in examples])}


def main():
    """Runs an epoch."""
    args = arguments()
    files = photos_in(args.photos)
    dataset = Dataset.from_dict({"image": files, "label": list(range(len(files)))}).cast_column("image", Image())
    augment = Compose(
        [
            RandomResizedCrop(224),
            RandomHorizontalFlip(),
            ToTensor(),
            Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )

    def train_transforms(example_batch):
        example_batch["pixel_values"] = [augment(image.convert("RGB")) for image in example_batch["image"]]
        return example_batch

    dataset.set_transform(train_transforms)
    measured(
        lambda: DataLoader(
            dataset, args.batch_size, shuffle=True, collate_fn=collate_fn, num_workers=args.workers, drop_last=True
        )
    )


if __name__ == "__main__":
    main()
