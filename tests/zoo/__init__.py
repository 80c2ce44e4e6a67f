"""All models of libraries that run uncompiled with random weights, captured by TorchDynamo and by Stator:
`python -m tests.zoo` writes docs/models.md."""
