"""A shard read by WebDataset, decoded as PIL images."""

import tarfile
import tempfile
from pathlib import Path

import webdataset
from _measured import arguments, measured, photos_in
from torch.utils.data import DataLoader
from torchvision import transforms


def main():
    """Runs an epoch."""
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        shards = [f"{folder}/{number}.tar" for number in range(2)]
        for number, name in enumerate(shards):
            with tarfile.open(name, "w") as shard:
                for place, file in enumerate(photos_in(args.photos)[number::2]):
                    shard.add(file, f"{place:06d}{Path(file).suffix.lower()}")
        transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )
        dataset = (
            webdataset.WebDataset(shards, shardshuffle=False)
            .decode("pil")
            .to_tuple("jpg;jpeg;png", "__key__")
            .map_tuple(transform, str)
        )
        measured(lambda: DataLoader(dataset, args.batch_size, num_workers=args.workers))


if __name__ == "__main__":
    main()
