"""Lightning: `with_lightning.py DATA OUT WORKERS [SIGNAL]`; in a job of SLURM's, SIGNAL comes in the second step."""

import os
import signal
import sys

import lightning
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Module(lightning.LightningModule):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.model = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=8),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 6),
        )

    def training_step(self, batch, index):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.log("loss", loss)
        if self.number is not None and index == 1:
            os.kill(os.getpid(), self.number)
        return loss

    def validation_step(self, batch, index):
        images, labels = batch
        self.log("accuracy", (self.model(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05, momentum=0.9)


def main():
    data, out, workers = sys.argv[1:4]
    number = getattr(signal, sys.argv[4]) if len(sys.argv) > 4 else None
    lightning.seed_everything(3, workers=True)
    train = ImageFolder(
        os.path.join(data, "train"),
        T.Compose(
            [
                T.RandomResizedCrop(224),
                T.RandomHorizontalFlip(),
                T.ColorJitter(0.4, 0.4, 0.4),
                T.ToTensor(),
                T.Normalize(MEAN, STD),
            ]
        ),
    )
    test = ImageFolder(
        os.path.join(data, "val"), T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)])
    )
    workers = int(workers)
    options = {"batch_size": 16, "num_workers": workers, "persistent_workers": workers > 0}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", default_root_dir=out, logger=False, enable_progress_bar=False,
        plugins=[SLURMEnvironment(requeue_signal=number)] if number is not None else None,
    )  # fmt: skip
    trainer.fit(Module(number), DataLoader(train, shuffle=True, **options), DataLoader(test, **options))
    if number is not None:
        saved = [name for name in os.listdir(out) if name.startswith("hpc_ckpt")]
        assert saved == ["hpc_ckpt_1.ckpt"], saved
        assert torch.load(os.path.join(out, saved[0]), weights_only=False)["global_step"] in (1, 2)


if __name__ == "__main__":
    main()
