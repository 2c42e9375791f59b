"""Lightning in a job of SLURM's, plainly and with the hooks: the same training, and its handlers of signals stay."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from process_manners import manners
from torchvision_here import torchvision

import fastpipe

JOB = {"JOB_ID": "17", "JOB_NAME": "train", "NTASKS": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0", "NNODES": "1"}
CONTROL = '#!/bin/sh\necho "$@" >> "$SCONTROL_CALLS"\n'


def trained(lightning: Any, photos: Path, out: Path, number: signal.Signals) -> dict[str, Any]:
    """An epoch in whose second step the job's signal comes: its losses, weights and the states of the process."""
    environments = pytest.importorskip("lightning.pytorch.plugins.environments")
    found: dict[str, Any] = {"losses": [], "states": []}

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 16 * 16, 2)

        def training_step(self, batch: Any, index: int) -> Any:
            if index == 1:
                found["handler"] = str(signal.getsignal(number)).split(" at ")[0]
                os.kill(os.getpid(), number)
            loss = torch.nn.functional.cross_entropy(self.layer(batch[0].flatten(1)), batch[1])
            found["losses"].append(loss.item())
            found["states"].append(manners())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    lightning.seed_everything(3, verbose=False)
    T = torchvision.transforms
    transform = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ColorJitter(0.4), T.ToTensor()])
    dataset = torchvision.datasets.ImageFolder(str(photos), transform)
    module = Module()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", default_root_dir=out, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
        plugins=[environments.SLURMEnvironment(requeue_signal=number)],
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(dataset, 4, shuffle=True))
    found["states"].append(manners())
    found["weights"] = [value.tolist() for value in module.state_dict().values()]
    found["saved"] = sorted(path.name for path in out.iterdir())
    return found


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Lightning takes no signal on Windows")
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_lightning_on_slurm(name: str, fresh_ledger: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = pytest.importorskip("lightning")
    calls, control = tmp_path / "calls", tmp_path / "bin" / "scontrol"
    control.parent.mkdir()
    control.write_text(CONTROL)
    control.chmod(0o755)
    for key, value in JOB.items():
        monkeypatch.setenv(f"SLURM_{key}", value)
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "1")
    monkeypatch.setenv("SCONTROL_CALLS", str(calls))
    monkeypatch.setenv("PATH", os.pathsep.join([str(control.parent), os.environ["PATH"]]))
    for variable in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(variable, raising=False)
    for index in range(12):
        path = tmp_path / "photos" / f"class{index % 2}" / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corpus.jpeg(40 + index, 70 - index, ("420", "444", "gray")[index % 3], index))
    outs = [tmp_path / "plain", tmp_path / "hooked"]
    for out in outs:
        out.mkdir()
    plain = trained(lightning, tmp_path / "photos", outs[0], getattr(signal, name))
    with fastpipe.install(check=0):
        ours = trained(lightning, tmp_path / "photos", outs[1], getattr(signal, name))
    for state in plain["states"] + ours["states"]:
        state["finders"] = [finder for finder in state["finders"] if not finder.startswith("fastpipe.")]
    assert "_HandlersCompose" in plain["handler"]
    assert plain["saved"] == ["hpc_ckpt_1.ckpt"]
    assert len(set(plain["losses"])) == 3
    for what, seen in plain.items():
        assert ours[what] == seen, what
    assert calls.read_text() == "requeue 17\n" * 2
