"""The 1797 handwritten digits of 8x8 pixels that come with scikit-learn."""

from pathlib import Path

from dpgap.data.published import Arrays, Published, first_rows_train
from dpgap.errors import InvalidInput


def read_digits(_published: Published, _folder: Path) -> Arrays:
    """The first 80 % of the rows train, the others test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InvalidInput(
            "The dataset digits comes with scikit-learn, which is not installed. "
            "Run pip install dpgap[train]."
        ) from error
    x, y = load_digits(return_X_y=True)
    return first_rows_train(x.reshape(-1, 1, 8, 8), y)
