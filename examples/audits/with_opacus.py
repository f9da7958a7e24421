"""Audit Opacus: does an attacker get more of a random image than its claim allows, eps 8 at delta 1e-5?"""

import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import dpgap

SIGMA = get_noise_multiplier(target_epsilon=8.0, target_delta=1e-5, sample_rate=0.25, epochs=5)


def train(x, y, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=2.0),
        data_loader=DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=360),
        noise_multiplier=SIGMA,
        max_grad_norm=1.0,
    )
    for _ in range(5):
        for rows, labels in loader:
            optimizer.zero_grad()
            cross_entropy(model(rows), labels).backward()
            optimizer.step()
    return model


if __name__ == "__main__":
    claim, design = dpgap.UpperBound.claimed(8.0, delta=1e-5), dpgap.ShadowPairs(models=100)
    options = {"design": design, "upper_bound": claim, "store": "opacus.sqlite"}
    found = dpgap.audit(train, dpgap.load("digits"), dpgap.RandomBinary(label=3), **options)
    print(f"claimed eps_ub {claim.value:.2f}, certified eps_lb {found.headline.value:.2f}")
