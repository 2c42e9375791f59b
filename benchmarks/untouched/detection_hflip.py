"""torchvision's reference for detection with ``--data-augmentation hflip``: its own transforms, masks from polygons."""

import torch
from _measured import Compose, arguments, measured, photos_in
from coco_ssd import CocoDetection, annotations_of, collate_fn, file_of
from pycocotools import mask as coco_mask
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.transforms import functional as F


class RandomHorizontalFlip(transforms.RandomHorizontalFlip):
    """The image, its boxes and masks mirrored, or not."""

    def forward(self, image, target=None):
        if torch.rand(1) < self.p:
            image = F.hflip(image)
            _, _, width = F.get_dimensions(image)
            target["boxes"][:, [0, 2]] = width - target["boxes"][:, [2, 0]]
            target["masks"] = target["masks"].flip(-1)
        return image, target


class PILToTensor(nn.Module):
    """The image as a tensor."""

    def forward(self, image, target=None):
        return F.pil_to_tensor(image), target


class ToDtype(nn.Module):
    """The image in another dtype."""

    def __init__(self, dtype, scale=False):
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def forward(self, image, target=None):
        return F.convert_image_dtype(image, self.dtype) if self.scale else image.to(dtype=self.dtype), target


def convert_coco_poly_mask(segmentations, height, width):
    """Each object's mask."""
    masks = []
    for polygons in segmentations:
        mask = coco_mask.decode(coco_mask.frPyObjects(polygons, height, width))
        if len(mask.shape) < 3:
            mask = mask[..., None]
        masks.append(torch.as_tensor(mask, dtype=torch.uint8).any(dim=2))
    return torch.stack(masks, dim=0) if masks else torch.zeros((0, height, width), dtype=torch.uint8)


class ConvertCocoPolysToMask:
    """Annotations as tensors."""

    def __call__(self, image, target):
        width, height = image.size
        found = [one for one in target["annotations"] if one["iscrowd"] == 0]
        boxes = torch.as_tensor([one["bbox"] for one in found], dtype=torch.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        boxes[:, 0::2].clamp_(min=0, max=width)
        boxes[:, 1::2].clamp_(min=0, max=height)
        labels = torch.tensor([one["category_id"] for one in found], dtype=torch.int64)
        masks = convert_coco_poly_mask([one["segmentation"] for one in found], height, width)
        keep = (boxes[:, 3] > boxes[:, 1]) & (boxes[:, 2] > boxes[:, 0])
        kept = {"boxes": boxes[keep], "labels": labels[keep], "masks": masks[keep], "image_id": target["image_id"]}
        area = torch.tensor([one["area"] for one in found])
        return image, {**kept, "area": area, "iscrowd": torch.tensor([one["iscrowd"] for one in found])}


class Found(CocoDetection):
    """COCO with all that is said of an image as the target."""

    def __getitem__(self, index):
        image, found = super().__getitem__(index)
        return self._transforms(image, {"image_id": self.ids[index], "annotations": found})


def with_polygons(annotations):
    """The annotations, each with the ellipse in its box as a polygon of 24 points."""
    turns = torch.linspace(0, 2 * torch.pi, 25)[:-1]
    circle = torch.stack([turns.cos(), turns.sin()], dim=1) / 2 + 0.5
    for one in annotations["annotations"]:
        left, top, width, height = one["bbox"]
        points = circle * torch.tensor([width, height]) + torch.tensor([left, top])
        one["segmentation"] = [points.flatten().tolist()]
    return annotations


def main():
    """Runs an epoch."""
    args = arguments()
    with file_of(with_polygons(annotations_of(photos_in(args.photos)))) as path:
        recipe = Compose(
            [ConvertCocoPolysToMask(), RandomHorizontalFlip(p=0.5), PILToTensor(), ToDtype(torch.float, scale=True)]
        )
        dataset = Found(args.photos, path, recipe)
        loader = DataLoader(dataset, 2, shuffle=True, num_workers=args.workers, collate_fn=collate_fn)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
