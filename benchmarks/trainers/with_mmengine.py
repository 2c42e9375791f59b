"""MMEngine's Runner: `with_mmengine.py DATA OUT WORKERS`."""

import os
import sys

from mmengine.dataset import default_collate
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import nn
from torchvision import transforms as T
from torchvision.datasets import ImageFolder


class Model(BaseModel):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 6)
        )

    def forward(self, images, labels, mode):
        scores = self.model(images)
        return {"loss": nn.functional.cross_entropy(scores, labels)} if mode == "loss" else (scores, labels)


class Accuracy(BaseMetric):
    def process(self, data_batch, data_samples):
        scores, labels = data_samples
        self.results.append((int((scores.argmax(1) == labels).sum()), len(labels)))

    def compute_metrics(self, results):
        return {"accuracy": sum(right for right, _ in results) / sum(count for _, count in results)}


def main():
    data, out, workers = sys.argv[1:4]
    train = ImageFolder(
        os.path.join(data, "train"),
        T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.RandAugment(), T.ToTensor()]),
    )
    test = ImageFolder(os.path.join(data, "val"), T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor()]))
    options = {
        "batch_size": 16,
        "num_workers": int(workers),
        "persistent_workers": int(workers) > 0,
        "collate_fn": default_collate,
    }
    Runner(
        model=Model(),
        work_dir=out,
        train_dataloader={**options, "dataset": train, "sampler": {"type": "DefaultSampler", "shuffle": True}},
        val_dataloader={**options, "dataset": test, "sampler": {"type": "DefaultSampler", "shuffle": False}},
        train_cfg={"by_epoch": True, "max_epochs": 1, "val_interval": 1},
        val_cfg={},
        val_evaluator={"type": Accuracy},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.05}},
        env_cfg={"cudnn_benchmark": False, "mp_cfg": {"mp_start_method": "fork", "opencv_num_threads": 0}},
        randomness={"seed": 9},
    ).train()


if __name__ == "__main__":
    main()
