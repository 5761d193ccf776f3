"""CRFsuite models inside packages that people use, against python-crfsuite, which is CRFsuite itself.

The packages are downloaded without being installed or imported; without a network the test is skipped.
"""

import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loglinear.estimators.tagger.foreign import chain_model
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.foreign.crfsuite import read_crfsuite, write_crfsuite

pycrfsuite = pytest.importorskip("pycrfsuite")

PACKAGES = {
    "usaddress==0.5.16": 1,
    "probablepeople==0.5.6": 3,
    "pythainlp==5.4.0": 5,
    "khmercut==0.2.0": 1,
    "ssg==0.0.8": 1,
    "underthesea==9.5.0": 5,
    "SEFR_CUT==1.1": 4,
    "pyvi==0.1.1": 1,
}  #: and how many models each has
SEQUENCES = 150


def contents(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files in a wheel or a source distribution."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                yield name, wheel.read(name)
    else:
        with tarfile.open(archive) as source:
            for member in source.getmembers():
                if member.isfile():
                    yield member.name, source.extractfile(member).read()


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    for package in PACKAGES:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":none:", package]
        done = subprocess.run([*command, "--dest", folder / package], capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"pip cannot download {package}: no network? {done.stderr.strip()[-200:]}")
    return folder


def random_sequences(attributes: list[str], rng: random.Random) -> list[list[dict[str, float]]]:
    """Tokens of known and unknown attributes with real values; some have none."""

    def token() -> dict[str, float]:
        names = rng.sample(attributes, min(len(attributes), rng.randint(0, 12))) + rng.choice([[], ["?unknown"]])
        return {name: 1.0 if rng.random() < 0.8 else rng.gauss(0, 2) for name in names}

    return [[token() for _ in range(rng.randint(1, 9))] for _ in range(SEQUENCES)]


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_packages_models_answer_as_in_crfsuite(downloaded, package):
    (archive,) = (downloaded / package).iterdir()
    models = [(name, data) for name, data in contents(archive) if data[:4] == b"lCRF"]
    assert len({data for _, data in models}) == PACKAGES[package], [name for name, _ in models]
    for name, data in models:
        model = read_crfsuite(data, name)
        assert write_crfsuite(model) == data, name
        ours, theirs = LoadedTagger(chain_model(model)), pycrfsuite.Tagger()
        theirs.open_inmemory(data)
        X = random_sequences(model.attributes, random.Random(name))
        predicted, marginals = ours.predict(X), ours.predict_marginals(X)
        p = np.exp(ours.log_probability(X, predicted))
        for i, (x, y) in enumerate(zip(X, predicted, strict=True)):
            assert theirs.tag(x) == y, (name, i)
            assert abs(theirs.probability(y) - p[i]) < 1e-9
            expected = [[theirs.marginal(label, t) for label in model.labels] for t in range(len(x))]
            found = [[row[label] for label in model.labels] for row in marginals[i]]
            np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0)
