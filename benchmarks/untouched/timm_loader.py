"""timm's dataset and loader with its training recipe."""

from _measured import arguments, measured
from timm.data import create_dataset, create_loader


def main():
    """Runs an epoch."""
    args = arguments()
    dataset = create_dataset("", root=str(args.photos), is_training=True)
    loader = create_loader(
        dataset,
        input_size=(3, 224, 224),
        batch_size=args.batch_size,
        is_training=True,
        use_prefetcher=False,
        num_workers=args.workers,
        persistent_workers=False,
        pin_memory=False,
    )
    measured(lambda: loader)


if __name__ == "__main__":
    main()
