"""Write the example scores: a simulated audit of a mechanism whose true privacy is known.

Nothing was trained. Each file stands for 200 models: one score per model, how strongly an attacker believes
that the model had seen the canary. Outside scores are draws of N(0, 1), inside scores of N(2, 1): exactly
the trade-off of a Gaussian mechanism with mu = 2, whose true epsilon at delta = 1e-5 is 10.0.

    python examples/make_scores.py
"""

from pathlib import Path

from dpgap._seeds import stream

MODELS = 200
SEPARATION = 2.0


def example_scores() -> dict[str, list[float]]:
    """The scores of both worlds, rounded as the files hold them."""
    means = {"inside": SEPARATION, "outside": 0.0}
    return {
        world: stream(0, "examples", world).normal(mean, 1.0, size=MODELS).round(4).tolist()
        for world, mean in means.items()
    }


if __name__ == "__main__":
    for world, scores in example_scores().items():
        text = "\n".join(["score", *(f"{score:.4f}" for score in scores)])
        Path(__file__).with_name(f"{world}.csv").write_text(text + "\n", encoding="utf-8")
