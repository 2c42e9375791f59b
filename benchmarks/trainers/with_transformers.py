"""Hugging Face's Trainer, with a small ViT: `with_transformers.py DATA OUT WORKERS`."""

import os
import sys

import torch
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed


def collate(samples):
    return {
        "pixel_values": torch.stack([image for image, _ in samples]),
        "labels": torch.tensor([label for _, label in samples]),
    }


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    data, out, workers = sys.argv[1:4]
    set_seed(7)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=224,
        patch_size=32,
        num_labels=6,
    )
    normalize = T.Normalize([0.5] * 3, [0.5] * 3)
    train = ImageFolder(
        os.path.join(data, "train"),
        T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), normalize]),
    )
    test = ImageFolder(
        os.path.join(data, "val"), T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), normalize])
    )
    arguments = TrainingArguments(
        out, num_train_epochs=1, per_device_train_batch_size=16, per_device_eval_batch_size=16, use_cpu=True,
        report_to=[], remove_unused_columns=False, disable_tqdm=True, dataloader_num_workers=int(workers),
        dataloader_pin_memory=False, eval_strategy="epoch", save_strategy="epoch", logging_steps=2, seed=7,
    )  # fmt: skip
    Trainer(
        model=ViTForImageClassification(config), args=arguments, data_collator=collate, train_dataset=train,
        eval_dataset=test, compute_metrics=accuracy,
    ).train()  # fmt: skip


if __name__ == "__main__":
    main()
