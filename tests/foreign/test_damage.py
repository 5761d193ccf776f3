"""Damaged model files of other tools are refused or read: no crash, no hang, no memory out of proportion.

The whole campaign: ``LOGLINEAR_DAMAGED_FILES=100000 pytest -m slow tests/foreign/test_damage.py``.
"""

import os
import random
import time
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from loglinear.errors import ModelFileError
from loglinear.estimators.tagger.foreign import chain_model, read_foreign
from loglinear.foreign.crfsuite import CrfsuiteModel, write_crfsuite
from referees import foreign_files as files

MOST_TIMES, BESIDES = 4, 2_000_000  # memory that reading may take: times the file, and bytes in any case


def originals() -> list[bytes]:
    """A file of each form, of some kilobytes."""
    rng = np.random.default_rng(0)
    labels = ["A", "B", "Ö"]
    words = [f"w{i}" for i in range(120)]
    pairs = np.flatnonzero(rng.random(360) < 0.5)
    moves = np.arange(9)
    state, transition = rng.normal(size=len(pairs)), rng.normal(size=9)
    model = CrfsuiteModel(labels, words, pairs // 3, pairs % 3, state, moves // 3, moves % 3, transition)
    crfsuite = write_crfsuite(model)
    templates = ["U00:%x[0,0]", "U01:%x[-1,0]/%x[0,0]", "B", "B1:%x[0,0]"]
    keys, total = {}, 0
    for key in [
        *(f"U00:{w}" for w in words),
        *(f"U01:{v}/{w}" for v, w in pairwise(words)),
        "B",
        "B1:w1",
    ]:
        keys[key] = total
        total += 3 if key[0] == "U" else 9
    weights = rng.normal(size=total)
    patterns = ["u:w=%x[0,0]", 'u:t=%t[0,0,"^\\d*$"]', "*", "b:%x[0,0]"]
    observations = [*(f"u:w={w}" for w in words), "u:t=true", "u:t=false", "*", "b:w1", "b:w2"]
    wapiti = files.wapiti_text(2, patterns, labels, observations, rng.normal(size=122 * 3 + 12 + 18))
    raw = files.wapiti_text(1, [], labels, observations, rng.normal(size=122 * 3 + 12 + 18))
    binary = files.crfpp_binary(labels, templates, keys, weights)
    return [crfsuite, binary, files.crfpp_text(labels, templates, keys, weights), wapiti, raw]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The file after one to three accidents or tricks."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        n, what = len(data), rng.randrange(8)
        if n < 16:
            break
        place = rng.randrange(n - 8) if rng.random() < 0.6 else rng.randrange(min(n - 8, 120))
        if what == 0:
            del data[rng.randrange(n) :]
        elif what == 1:
            data[place] = rng.randrange(256)
        elif what == 2:  # a count or an offset
            number = rng.choice([0, 1, n - 1, n, n + 1, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(2 * n)])
            at = place - place % 4
            data[at : at + 4] = number.to_bytes(4, "little")
        elif what == 3:
            del data[place : place + rng.randint(1, 64)]
        elif what == 4:
            data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 16)))
        elif what == 5:  # two blocks change places
            size, other = rng.randint(1, 200), rng.randrange(n)
            one, two = bytes(data[place : place + size]), bytes(data[other : other + size])
            data[place : place + len(two)], data[other : other + len(one)] = two, one
        elif what == 6:  # digits of a text, or a repeated part
            if rng.random() < 0.5:
                data[place:place] = data[place : place + rng.randint(1, 300)]
            else:
                digits = [i for i in range(place, min(n, place + 200)) if 48 <= data[i] < 58]
                for i in digits[: rng.randint(1, 3)]:
                    data[i] = 48 + rng.randrange(10)
        else:
            data[place] ^= 1 << rng.randrange(8)
    return bytes(data)


def campaign(count: int, seed: int, measured: int) -> tuple[int, int, float]:
    """Damage files, read them; every ``measured``-th one with its memory. Returns how many were read and refused."""
    rng, given = random.Random(seed), originals()
    read, refused, slowest = 0, 0, 0.0
    for number in range(count):
        data = damaged(given[number % len(given)], rng)
        if measure := number % measured == 0:
            tracemalloc.start()
        began = time.process_time()
        try:
            model = chain_model(read_foreign(data, "damaged.model"), "damaged.model")
            assert np.isfinite(model.weights).all()
            assert model.features.n_features == len(model.weights)
            read += 1
        except ModelFileError as error:
            assert "damaged.model" in str(error)
            refused += 1
        finally:
            seconds = time.process_time() - began
            if measure:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert peak <= MOST_TIMES * len(data) + BESIDES, (number, peak, len(data))
            else:
                slowest = max(slowest, seconds)
    return read, refused, slowest


def test_damaged_files_are_refused_or_read():
    assert all(chain_model(read_foreign(data, "m"), "m").labels == ["A", "B", "Ö"] for data in originals())
    read, refused, slowest = campaign(400, seed=1, measured=10)
    assert read > 20
    assert refused > 200
    assert slowest < 5.0


@pytest.mark.slow
def test_many_damaged_files_are_refused_or_read():
    count = int(os.environ.get("LOGLINEAR_DAMAGED_FILES", "20000"))
    read, refused, slowest = campaign(count, seed=2, measured=2)
    print(f"{count:,} damaged files: {read:,} read, {refused:,} refused, the slowest in {slowest:.2f} s")
    assert read + refused == count
    assert slowest < 5.0
