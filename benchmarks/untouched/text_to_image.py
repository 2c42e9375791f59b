"""diffusers' example for SDXL at 512: `with_transform` with a function of a batch that calls transforms one by one."""

import random

import torch
from _measured import arguments, measured, photos_in
from datasets import Dataset, Image
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.transforms.functional import crop


def collate_fn(examples):
    """The tensors that a model takes."""
    pixel_values = torch.stack([example["pixel_values"] for example in examples])
    return {
        "pixel_values": pixel_values.to(memory_format=torch.contiguous_format).float(),
        "original_sizes": [example["original_sizes"] for example in examples],
        "crop_top_lefts": [example["crop_top_lefts"] for example in examples],
    }


def main():
    """Runs an epoch."""
    args = arguments()
    dataset = Dataset.from_dict({"image": photos_in(args.photos)}).cast_column("image", Image())
    train_resize = transforms.Resize(512, interpolation=transforms.InterpolationMode.BILINEAR)
    train_crop, train_flip = transforms.RandomCrop(512), transforms.RandomHorizontalFlip(p=1.0)
    train_transforms = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])

    def preprocess_train(examples):
        images = [image.convert("RGB") for image in examples["image"]]
        examples["original_sizes"] = [(image.height, image.width) for image in images]
        examples["crop_top_lefts"], examples["pixel_values"] = [], []
        for image in images:
            resized = train_resize(image)
            if random.random() < 0.5:
                resized = train_flip(resized)
            top, left, height, width = train_crop.get_params(resized, (512, 512))
            examples["crop_top_lefts"].append((top, left))
            examples["pixel_values"].append(train_transforms(crop(resized, top, left, height, width)))
        return examples

    train = dataset.with_transform(preprocess_train)
    measured(lambda: DataLoader(train, 8, shuffle=True, collate_fn=collate_fn, num_workers=args.workers))


if __name__ == "__main__":
    main()
