"""torchvision's reference for detection with ``--data-augmentation hflip --use-v2``: masks from polygons."""

import torch
from _measured import arguments, measured, photos_in
from coco_ssd import annotations_of, collate_fn, file_of
from detection_hflip import with_polygons
from torch.utils.data import DataLoader
from torchvision import datasets, tv_tensors
from torchvision.transforms import v2


def main():
    """Runs an epoch."""
    args = arguments()
    with file_of(with_polygons(annotations_of(photos_in(args.photos)))) as path:
        transforms = v2.Compose(
            [
                v2.ToImage(),
                v2.RandomHorizontalFlip(p=0.5),
                v2.ToDtype(torch.float, scale=True),
                v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
                v2.SanitizeBoundingBoxes(),
                v2.ToPureTensor(),
            ]
        )
        dataset = datasets.CocoDetection(args.photos, path, transforms=transforms)
        keys = ["boxes", "labels", "image_id", "masks"]
        dataset = datasets.wrap_dataset_for_transforms_v2(dataset, target_keys=keys)
        loader = DataLoader(dataset, 2, shuffle=True, num_workers=args.workers, collate_fn=collate_fn)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
