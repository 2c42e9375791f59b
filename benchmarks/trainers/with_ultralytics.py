"""Ultralytics' trainer: `with_ultralytics.py DATA OUT WORKERS classify|detect`."""

import os
import random
import shutil
import sys

from ultralytics import YOLO


def boxes(data, out):
    """The same photos with boxes in its own format; returns the path of their description."""
    numbers = random.Random(11)
    for part in ("train", "val"):
        for kind in ("images", "labels"):
            os.makedirs(os.path.join(out, kind, part))
        for folder, _, names in sorted(os.walk(os.path.join(data, part))):
            for name in sorted(names):
                shutil.copy(os.path.join(folder, name), os.path.join(out, "images", part, name))
                lines = [
                    f"{numbers.randrange(4)} {numbers.uniform(0.3, 0.7)} {numbers.uniform(0.3, 0.7)} 0.3 0.4"
                    for _ in range(3)
                ]
                with open(os.path.join(out, "labels", part, os.path.splitext(name)[0] + ".txt"), "w") as file:
                    file.write("\n".join(lines))
    described = os.path.join(out, "data.yaml")
    with open(described, "w") as file:
        file.write(f"path: {out}\ntrain: images/train\nval: images/val\nnames: [a, b, c, d]\n")
    return described


def main():
    data, out, workers, task = sys.argv[1:5]
    options = {
        "epochs": 1,
        "device": "cpu",
        "workers": int(workers),
        "batch": 16,
        "project": out,
        "plots": False,
        "amp": False,
        "seed": 1,
    }
    if task == "classify":
        YOLO("yolov8n-cls.yaml").train(data=data, imgsz=224, **options)
    else:
        YOLO("yolov8n.yaml").train(data=boxes(data, os.path.join(out, "data")), imgsz=160, **options)


if __name__ == "__main__":
    main()
