"""Lightning: `Trainer.fit` with a compiled module."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torchmetrics.classification import MulticlassAccuracy

from tests.integrations.scenario import Run, scenario

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.accuracy = MulticlassAccuracy(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        logits = self(x)
        self.accuracy(logits, y)
        self.log("accuracy", self.accuracy, on_epoch=True)
        self.log("val_loss", nn.functional.cross_entropy(logits, y), prog_bar=True)

    def predict_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


def loader() -> torch.utils.data.DataLoader:
    generator = torch.Generator().manual_seed(0)
    data = torch.utils.data.TensorDataset(
        torch.randn(24, 8, generator=generator), torch.randint(3, (24,), generator=generator)
    )
    return torch.utils.data.DataLoader(data, batch_size=8)


def trainer(folder: str, **options: Any) -> Trainer:
    return Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def fit(run: Run, model: Any, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        used = trainer(folder, **options)
        run.call(lambda: used.fit(model, loader(), loader()))
        run.keep({name: float(value) for name, value in used.callback_metrics.items()})
        run.call(lambda: used.validate(model, loader(), verbose=False))
        run.call(lambda: used.predict(model, loader()))
        if not options.get("fast_dev_run"):
            used.save_checkpoint(f"{folder}/last.ckpt")
            loaded = Classifier.load_from_checkpoint(f"{folder}/last.ckpt", weights_only=True)
            run.keep(loaded.state_dict())
        run.keep(list(model.parameters()))


@scenario("fit of a compiled module, fast_dev_run")
def fast_dev_run(run: Run) -> None:
    fit(run, torch.compile(Classifier(), backend=run.backend), fast_dev_run=True)


@scenario("fit of a compiled module, two epochs, a checkpoint")
def epochs(run: Run) -> None:
    fit(run, torch.compile(Classifier(), backend=run.backend), max_epochs=2, enable_checkpointing=False)


@scenario("fit of a compiled module, accumulation, clipping, bf16", backend="eager")
def accumulation(run: Run) -> None:
    model = torch.compile(Classifier(), backend=run.backend)
    options = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "precision": "bf16-mixed"}
    fit(run, model, max_epochs=1, enable_checkpointing=False, **options)


@scenario("fit of a module that was compiled in place")
def in_place(run: Run) -> None:
    model = Classifier()
    model.compile(backend=run.backend)
    fit(run, model, max_epochs=1, enable_checkpointing=False)


@scenario("Fabric compiles what it sets up")
def fabric(run: Run) -> None:
    used = Fabric(accelerator="cpu", devices=1)
    used.launch()
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    compiled = torch.compile(net, backend=run.backend)
    model, optimizer = used.setup(compiled, torch.optim.SGD(net.parameters(), lr=0.1))
    batches = used.setup_dataloaders(loader())

    def epoch() -> torch.Tensor:
        for x, y in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            used.backward(loss)
            optimizer.step()
        return loss

    for _ in range(3):
        run.call(epoch)
    run.keep({name.replace("_orig_mod.", ""): value for name, value in model.state_dict().items()})
