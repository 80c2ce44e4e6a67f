"""Training scripts in the manner of nanoGPT and nanochat."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.integrations.scenario import Run, scenario


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.size()
        q, k, v = self.c_attn(x).split(width, dim=2)
        q, k, v = (each.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for each in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, time, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, words: int = 65, length: int = 32, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.length = length
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(words, width),
                "wpe": nn.Embedding(length, width),
                "h": nn.ModuleList([Block(width, heads) for _ in range(layers)]),
                "ln_f": nn.LayerNorm(width),
            }
        )
        self.lm_head = nn.Linear(width, words, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(
        self, tokens: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        time = tokens.size(1)
        assert time <= self.length, f"Cannot forward sequence of length {time}"
        positions = torch.arange(0, time, dtype=torch.long, device=tokens.device)
        x = self.transformer.wte(tokens) + self.transformer.wpe(positions)
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, tokens: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            logits, _ = self(tokens[:, -self.length :])
            tokens = torch.cat((tokens, logits[:, -1, :].argmax(dim=-1, keepdim=True)), dim=1)
        return tokens


def batch(words: int = 65, length: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(words, (4, length + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def learning_rate(step: int) -> float:
    return 1e-3 * (step + 1) / 3 if step < 2 else 1e-4 + 0.5 * (1 + math.cos(math.pi * step / 10)) * 9e-4


def train_nanogpt(run: Run, autocast: bool) -> None:
    unoptimized = GPT()
    decayed = [p for p in unoptimized.parameters() if p.dim() >= 2]
    others = [p for p in unoptimized.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.95)
    )
    model = torch.compile(unoptimized, backend=run.backend)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    context = torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=autocast)
    data = [batch() for _ in range(8)]

    @torch.no_grad()
    def estimate_loss() -> float:
        model.eval()
        losses = torch.zeros(2)
        for k in range(2):
            with context:
                losses[k] = model(*data[k])[1].item()
        model.train()
        return losses.mean()

    def step(number: int) -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number)
        for micro in range(2):
            with context:
                _, loss = model(*data[(2 * number + micro) % 8])
                loss = loss / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for number in range(4):
        run.call(lambda number=number: step(number))
    run.call(estimate_loss)
    run.call(lambda: unoptimized.eval().generate(torch.zeros(1, 1, dtype=torch.long), 6))
    run.keep({name.removeprefix("_orig_mod."): value for name, value in model.state_dict().items()})


@scenario("nanoGPT: accumulation, clipping, AdamW, evaluation")
def nanogpt(run: Run) -> None:
    train_nanogpt(run, autocast=False)


@scenario("nanoGPT under autocast")
def nanogpt_autocast(run: Run) -> None:
    train_nanogpt(run, autocast=True)


# ---- In the manner of nanochat: rotary embeddings, RMS norm, grouped heads, Muon, a compiled optimizer step ------------


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.size(-1),))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[3] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos + second * sin, first * (-sin) + second * cos], 3)


class KeysAndValues:
    """A cache that grows, as that of nanochat's engine."""

    def __init__(self, layers: int, heads: int, size: int) -> None:
        self.shape = (layers, 2, 1, heads, 4, size)
        self.cache: torch.Tensor | None = None
        self.position = 0

    def insert(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.cache is None:
            self.cache = torch.empty(self.shape, dtype=k.dtype)
        start, end = self.position, self.position + k.size(2)
        if end > self.cache.size(4):
            more = torch.empty((*self.shape[:4], 8, self.shape[5]), dtype=k.dtype)
            self.cache = torch.cat([self.cache, more], dim=4).contiguous()
            self.shape = tuple(self.cache.shape)
        self.cache[layer, 0, :, :, start:end] = k
        self.cache[layer, 1, :, :, start:end] = v
        if layer == self.shape[0] - 1:
            self.position = end
        return self.cache[layer, 0, :, :, :end], self.cache[layer, 1, :, :, :end]


class ChatAttention(nn.Module):
    def __init__(self, layer: int, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.layer, self.heads, self.key_heads, self.size = layer, heads, key_heads, width // heads
        self.c_q = nn.Linear(width, width, bias=False)
        self.c_k = nn.Linear(width, key_heads * self.size, bias=False)
        self.c_v = nn.Linear(width, key_heads * self.size, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)

    def forward(
        self, x: torch.Tensor, cos_sin: tuple[torch.Tensor, torch.Tensor], cache: KeysAndValues | None
    ) -> torch.Tensor:
        batch, time, _ = x.size()
        q = self.c_q(x).view(batch, time, self.heads, self.size)
        k = self.c_k(x).view(batch, time, self.key_heads, self.size)
        v = self.c_v(x).view(batch, time, self.key_heads, self.size)
        q, k = norm(rotated(q, *cos_sin)), norm(rotated(k, *cos_sin))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if cache is not None:
            k, v = cache.insert(self.layer, k, v)
        grouped = self.heads != self.key_heads
        if cache is None or q.size(2) == k.size(2):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=False, enable_gqa=grouped)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, time, -1))


class ChatBlock(nn.Module):
    def __init__(self, layer: int, width: int) -> None:
        super().__init__()
        self.attn = ChatAttention(layer, width, heads=4, key_heads=2)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(
        self, x: torch.Tensor, cos_sin: tuple[torch.Tensor, torch.Tensor], cache: KeysAndValues | None
    ) -> torch.Tensor:
        x = x + self.attn(norm(x), cos_sin, cache)
        return x + self.c_proj(F.relu(self.c_fc(norm(x))).square())


class ChatModel(nn.Module):
    def __init__(self, words: int = 65, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([ChatBlock(layer, width) for layer in range(layers)])
        self.lm_head = nn.Linear(width, words, bias=False)
        angles = torch.outer(torch.arange(64).float(), 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8)))
        self.register_buffer("cos", angles.cos()[None, :, None, :], persistent=False)
        self.register_buffer("sin", angles.sin()[None, :, None, :], persistent=False)

    def forward(
        self,
        tokens: torch.Tensor,
        targets: torch.Tensor | None = None,
        cache: KeysAndValues | None = None,
        loss_reduction: str = "mean",
    ) -> torch.Tensor:
        time = tokens.size(1)
        start = 0 if cache is None else cache.position
        cos_sin = self.cos[:, start : start + time], self.sin[:, start : start + time]
        x = norm(self.embedding(tokens))
        for block in self.blocks:
            x = block(x, cos_sin, cache)
        logits = 15 * torch.tanh(self.lm_head(norm(x)).float() / 15)
        if targets is None:
            return logits
        return F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1, reduction=loss_reduction
        )


def orthogonalized(gradient: torch.Tensor, steps: int) -> torch.Tensor:
    """The Newton-Schulz iteration of Muon; compiled by the program, as there."""
    x = gradient.mT if gradient.size(-2) > gradient.size(-1) else gradient
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if gradient.size(-2) > gradient.size(-1) else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params: list[nn.Parameter], backend: str, lr: float = 0.02, momentum: float = 0.95) -> None:
        groups = [
            {"params": [p for p in params if p.shape == shape]} for shape in sorted({tuple(p.shape) for p in params})
        ]
        super().__init__(groups, {"lr": lr, "momentum": momentum})
        self.orthogonalize = torch.compile(orthogonalized, backend=backend, fullgraph=True)

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p.grad)
                buffer = state["momentum_buffer"].lerp_(p.grad, 1 - group["momentum"])
                update = self.orthogonalize(p.grad.lerp_(buffer, group["momentum"]), steps=5)
                p.add_(update, alpha=-group["lr"] * max(1, p.size(-2) / p.size(-1)) ** 0.5)


def train_nanochat(run: Run) -> None:
    original = ChatModel()
    model = torch.compile(original, backend=run.backend, dynamic=False)
    matrices = [p for block in original.blocks for p in block.parameters()]
    muon = Muon(matrices, run.backend)
    adam = torch.optim.AdamW([*original.embedding.parameters(), *original.lm_head.parameters()], lr=1e-3)

    def step(number: int) -> torch.Tensor:
        loss = model(*batch())
        loss.backward()
        for group in muon.param_groups:
            group["momentum"] = 0.85 + 0.1 * min(number / 3, 1)
        for optimizer in (adam, muon):
            optimizer.step()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    for number in range(4):
        run.call(lambda number=number: step(number))
    model.eval()
    with torch.no_grad():
        tokens, targets = batch()
        run.call(lambda: model(tokens, targets, loss_reduction="none"))
    run.keep(original.state_dict())


@scenario("nanochat: rotary, grouped heads, Muon, losses without reduction")
def nanochat(run: Run) -> None:
    train_nanochat(run)


@scenario("nanochat", backend="inductor")
def nanochat_inductor(run: Run) -> None:
    train_nanochat(run)


@scenario("nanochat: a compiled model decodes with a cache that grows", backend="eager")
def nanochat_decodes(run: Run) -> None:
    model = torch.compile(ChatModel().eval(), backend=run.backend)

    @torch.inference_mode()
    def generate() -> list[int]:
        cache = KeysAndValues(layers=2, heads=2, size=8)
        tokens = torch.tensor([[1, 2, 3]])
        made = []
        for _ in range(12):
            tokens = model(tokens, cache=cache)[:, -1].argmax(dim=-1, keepdim=True)
            made.append(tokens.item())
        return made

    for _ in range(3):
        run.call(generate)
