"""Audit plain PyTorch training, which promises nothing: how much does it betray of a random image?"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import dpgap


def train(x, y, seed):
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    linear = nn.Linear(64, 10)
    nn.init.zeros_(linear.weight)
    model = nn.Sequential(nn.Flatten(), linear)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(5):
        for rows in torch.randperm(len(x), generator=generator).split(64):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model


if __name__ == "__main__":
    found = dpgap.audit(
        train,
        dpgap.load("digits"),
        dpgap.RandomBinary(label=3),
        design=dpgap.ShadowPairs(models=100),
        store="pytorch.sqlite",
    )
    print(f"certified eps_lb {found.headline.value:.2f}, test accuracy {found.test_accuracy.mean:.1%}")
