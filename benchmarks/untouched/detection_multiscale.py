"""torchvision's reference for detection with ``--data-augmentation multiscale --use-v2``: its preset's transforms."""

import torch
from _measured import arguments, measured, photos_in
from coco_ssd import annotations_of, collate_fn, file_of
from torch.utils.data import DataLoader
from torchvision import datasets, tv_tensors
from torchvision.transforms import v2


class DetectionPresetTrain:
    """The transforms of one of the reference's presets."""

    def __init__(self):
        self.transforms = v2.Compose(
            [
                v2.RandomShortestSize(min_size=(480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800), max_size=1333),
                v2.RandomHorizontalFlip(p=0.5),
                v2.ToImage(),
                v2.ToDtype(torch.float, scale=True),
                v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
                v2.SanitizeBoundingBoxes(),
                v2.ToPureTensor(),
            ]
        )

    def __call__(self, img, target):
        return self.transforms(img, target)


def main():
    """Runs an epoch."""
    args = arguments()
    with file_of(annotations_of(photos_in(args.photos))) as path:
        dataset = datasets.CocoDetection(args.photos, path, transforms=DetectionPresetTrain())
        dataset = datasets.wrap_dataset_for_transforms_v2(dataset, target_keys=["boxes", "labels", "image_id"])
        loader = DataLoader(dataset, 2, shuffle=True, num_workers=args.workers, collate_fn=collate_fn)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
