"""The published datasets that ``load`` knows: where they lie, what they hold, how they are normalised."""

from dpgap.data.cifar import read_cifar10, read_cifar100
from dpgap.data.digits import read_digits
from dpgap.data.idx import read_idx
from dpgap.data.published import Published
from dpgap.data.shokri import read_location, read_purchase, read_texas

_CIFAR_HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
_SHOKRI_HOME = "https://github.com/privacytrustlab/datasets"

DATASETS = {
    "digits": Published(
        title="digits",
        places=("",),
        files="a part of scikit-learn",
        home="scikit-learn",
        read=read_digits,
        num_classes=10,
        largest=16,
    ),
    "mnist": Published(
        title="MNIST",
        places=("mnist",),
        files="the four idx files, gzipped or not, in mnist/",
        home="http://yann.lecun.com/exdb/mnist",
        read=read_idx,
        num_classes=10,
        mean=(0.1307,),
        deviation=(0.3081,),
        largest=255,
        checksums={
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "fashion-mnist": Published(
        title="Fashion-MNIST",
        places=("fashion-mnist",),
        files="the four idx files, gzipped or not, in fashion-mnist/",
        home="https://github.com/zalandoresearch/fashion-mnist",
        read=read_idx,
        num_classes=10,
        mean=(0.2860,),
        deviation=(0.3530,),
        largest=255,
        checksums={
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
    "cifar10": Published(
        title="CIFAR-10",
        places=("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py"),
        files="six batches, binary or Python version, in cifar10/ (or the archive's folder)",
        home=_CIFAR_HOME,
        read=read_cifar10,
        num_classes=10,
        mean=(0.4914, 0.4822, 0.4465),
        deviation=(0.2023, 0.1994, 0.2010),
        largest=255,
        checksums={
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
    "cifar100": Published(
        title="CIFAR-100",
        places=("cifar100", "cifar-100-binary", "cifar-100-python"),
        files="a training and a test file, binary or Python version, in cifar100/ (or the archive's folder)",
        home=_CIFAR_HOME,
        read=read_cifar100,
        num_classes=100,
        mean=(0.5071, 0.4865, 0.4409),
        deviation=(0.2673, 0.2564, 0.2762),
        largest=255,
        checksums={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        },
    ),
    "purchase100": Published(
        title="Purchase100",
        places=("",),
        files="the archive dataset_purchase.tgz",
        home=_SHOKRI_HOME,
        read=read_purchase,
        num_classes=100,
    ),
    "texas100": Published(
        title="Texas100",
        places=("",),
        files="the archive dataset_texas.tgz",
        home=_SHOKRI_HOME,
        read=read_texas,
        num_classes=100,
    ),
    "location30": Published(
        title="Location30",
        places=("",),
        files="the archive dataset_location.tgz, or the same records packed in location30.npz",
        home=_SHOKRI_HOME,
        read=read_location,
        num_classes=30,
    ),
}
