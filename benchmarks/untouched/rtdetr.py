"""RT-DETR's dataset, which calls v2 transforms one by one on an image, a target and the dataset."""

import PIL.Image
import torch
from _measured import arguments, measured, photos_in
from coco_ssd import CocoDetection, annotations_of, boxes_within, collate_fn, file_of
from torch.utils.data import DataLoader
from torchvision import ops, tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F


class RandomIoUCrop(v2.RandomIoUCrop):
    """Cropped in eight of ten."""

    def __init__(self, p=1.0):
        super().__init__()
        self.p = p

    def __call__(self, *inputs):
        if torch.rand(1) >= self.p:
            return inputs if len(inputs) > 1 else inputs[0]
        return super().forward(*inputs)


class ConvertPILImage(v2.Transform):
    """The image as floats."""

    _transformed_types = (PIL.Image.Image,)

    def transform(self, inpt, params):
        return tv_tensors.Image(F.pil_to_tensor(inpt).float() / 255.0)


class ConvertBoxes(v2.Transform):
    """Boxes by their centres and relative to the image's size."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def transform(self, inpt, params):
        size = inpt.canvas_size
        boxes = ops.box_convert(inpt, in_fmt=inpt.format.value.lower(), out_fmt="cxcywh")
        boxes = tv_tensors.BoundingBoxes(boxes, format="CXCYWH", canvas_size=size)
        return boxes / torch.tensor(size[::-1]).tile(2)[None]


class Compose(v2.Compose):
    """Transforms by a policy: some are left out in the last epochs."""

    def __init__(self, transforms, epoch, until):
        super().__init__(transforms)
        self.epoch, self.until = epoch, until

    def forward(self, *inputs):
        sample = inputs
        for transform in self.transforms:
            if type(transform).__name__ not in self.until or sample[-1].epoch < self.epoch:
                sample = transform(sample)
        return sample


class Boxes(CocoDetection):
    """COCO with boxes as torchvision's."""

    epoch = 0

    def __getitem__(self, index):
        image, found = super().__getitem__(index)
        width, height = image.size
        found = [one for one in found if one["iscrowd"] == 0]
        boxes = boxes_within(found, image.size)
        labels = torch.tensor([one["category_id"] for one in found], dtype=torch.int64)
        keep = (boxes[:, 3] > boxes[:, 1]) & (boxes[:, 2] > boxes[:, 0])
        target = {"labels": labels[keep], "image_id": torch.tensor([self.ids[index]])}
        target["area"] = torch.tensor([one["area"] for one in found])[keep]
        target["iscrowd"] = torch.tensor([one["iscrowd"] for one in found])[keep]
        target["orig_size"] = torch.as_tensor([width, height])
        target["boxes"] = tv_tensors.BoundingBoxes(boxes[keep], format="XYXY", canvas_size=(height, width))
        image, target, _ = self._transforms(image, target, self)
        return image, target


def main():
    """Runs an epoch."""
    args = arguments()
    recipe = [
        v2.RandomPhotometricDistort(p=0.5),
        v2.RandomZoomOut(fill=0),
        RandomIoUCrop(p=0.8),
        v2.SanitizeBoundingBoxes(min_size=1),
        v2.RandomHorizontalFlip(),
        v2.Resize(size=[640, 640]),
        v2.SanitizeBoundingBoxes(min_size=1),
        ConvertPILImage(),
        ConvertBoxes(),
    ]
    with file_of(annotations_of(photos_in(args.photos))) as path:
        until = ("RandomPhotometricDistort", "RandomZoomOut", "RandomIoUCrop")
        dataset = Boxes(args.photos, path, Compose(recipe, epoch=71, until=until))
        loader = DataLoader(dataset, 4, shuffle=True, num_workers=args.workers, collate_fn=collate_fn, drop_last=True)
        measured(lambda: loader)


if __name__ == "__main__":
    main()
