"""Generated text classification problems."""

import numpy as np
import pytest

from loglinear.data.corpora.generator import generate_text_classes
from loglinear.errors import OptionError


def test_a_seed_gives_the_same_rows_and_another_seed_others():
    counts, classes = generate_text_classes(200, 500, 4, 1, shortest=5, longest=9)
    again, same = generate_text_classes(200, 500, 4, 1, shortest=5, longest=9)
    other, _ = generate_text_classes(200, 500, 4, 2, shortest=5, longest=9)
    assert (counts != again).nnz == 0 and np.array_equal(classes, same)
    assert (counts != other).nnz > 0
    assert counts.shape == (200, 500) and counts.has_canonical_format
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    assert lengths.min() >= 5 and lengths.max() <= 9 and set(classes.tolist()) == {0, 1, 2, 3}


def test_words_have_a_long_tail_and_tell_the_classes():
    counts, classes = generate_text_classes(4000, 2000, 3, 0, mislabelled=0.0)
    words = np.sort(np.asarray(counts.sum(axis=0)).ravel())[::-1]
    assert words[:20].sum() > 0.2 * words.sum() and (words > 0).sum() > 1500
    shares = np.stack([np.asarray(counts[classes == c].sum(axis=0)).ravel() for c in range(3)]) + 0.5
    shares /= shares.sum(axis=1, keepdims=True)
    found = (counts @ np.log(shares).T).argmax(axis=1)
    assert np.mean(found == classes) > 0.9
    noisy = generate_text_classes(4000, 2000, 3, 0, mislabelled=0.5)[1]
    assert 0.2 < np.mean(noisy != classes) < 0.45


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(OptionError, match="0 rows"):
        generate_text_classes(0, 5, 2)
    with pytest.raises(OptionError, match="9 to 3 words"):
        generate_text_classes(5, 5, 2, shortest=9, longest=3)
