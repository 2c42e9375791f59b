"""torchvision's reference for detection: CocoDetection, v2, SSD's recipe."""

import contextlib
import json
import random
import tempfile
from pathlib import Path

import torch
from _measured import arguments, measured, photos_in
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, tv_tensors
from torchvision.transforms import v2


def annotations_of(files):
    """Some boxes in each photo, as COCO has them."""
    chosen = random.Random(0)
    images, found = [], []
    for number, file in enumerate(files):
        with Image.open(file) as image:
            width, height = image.size
        images.append({"id": number, "file_name": file, "width": width, "height": height})
        for _ in range(chosen.randint(1, 8)):
            left, top = chosen.uniform(0, 0.6) * width, chosen.uniform(0, 0.6) * height
            box = [left, top, chosen.uniform(0.1, 0.4) * width, chosen.uniform(0.1, 0.4) * height]
            place = {"id": len(found), "image_id": number, "category_id": chosen.randint(1, 90), "bbox": box}
            found.append({**place, "area": box[2] * box[3], "iscrowd": 0})
    return {"images": images, "annotations": found, "categories": [{"id": n, "name": str(n)} for n in range(91)]}


@contextlib.contextmanager
def file_of(annotations):
    """A temporary file of annotations, as `CocoDetection` takes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.json"
        path.write_text(json.dumps(annotations))
        yield str(path)


def collate_fn(batch):
    """Lists of images and targets."""
    return tuple(zip(*batch, strict=True))


class CocoDetection(datasets.CocoDetection):
    """COCO with transforms of an image and a target, as repositories of their own derive it."""

    def __init__(self, root, annotations, transforms):
        super().__init__(root, annotations)
        self._transforms = transforms


def boxes_within(found, size):
    """The boxes of annotations by their corners, within an image of that width and height."""
    boxes = torch.as_tensor([one["bbox"] for one in found], dtype=torch.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    boxes[:, 0::2].clamp_(min=0, max=size[0])
    boxes[:, 1::2].clamp_(min=0, max=size[1])
    return boxes


def main():
    """Runs an epoch."""
    args = arguments()
    with file_of(annotations_of(photos_in(args.photos))) as path:
        transforms = v2.Compose(
            [
                v2.ToImage(),
                v2.RandomPhotometricDistort(),
                v2.RandomZoomOut(fill={tv_tensors.Image: (123.0, 117.0, 104.0), "others": 0}),
                v2.RandomIoUCrop(),
                v2.RandomHorizontalFlip(p=0.5),
                v2.Resize((300, 300), antialias=True),
                v2.ToDtype(torch.float, scale=True),
                v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
                v2.SanitizeBoundingBoxes(),
                v2.ToPureTensor(),
            ]
        )
        dataset = datasets.CocoDetection(args.photos, path, transforms=transforms)
        dataset = datasets.wrap_dataset_for_transforms_v2(dataset, target_keys=["boxes", "labels", "image_id"])
        loader = DataLoader(dataset, 16, shuffle=True, num_workers=args.workers, collate_fn=collate_fn)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
