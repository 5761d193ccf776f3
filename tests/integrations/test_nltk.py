"""A tagger as NLTK knows them; what is NLTK's own is skipped where it is not installed."""

import pytest

from loglinear import Tagger
from loglinear.errors import DataError, OptionError
from loglinear.integrations.nltk import NltkTagger
from problems.guides import run_guide

TRAIN = [
    [("the", "DT"), ("dog", "NN"), ("barks", "VB")],
    [("a", "DT"), ("cat", "NN"), ("sleeps", "VB")],
    [],
    [("the", "DT"), ("cat", "NN"), ("barks", None)],
]


def looks(tokens, i):
    return [f"w={tokens[i]}", f"before={tokens[i - 1] if i else ''}"]


@pytest.mark.parametrize("function", [None, looks])
def test_train_tag_and_accuracy(function, tmp_path):
    tagger = NltkTagger(feature_func=function).train(iter(TRAIN))
    assert tagger.tag(["the", "dog", "sleeps"]) == [("the", "DT"), ("dog", "NN"), ("sleeps", "VB")]
    sentences = [["a", "dog"], [], ("the", "cat")]
    assert tagger.tag_sents(iter(sentences)) == [tagger.tag(sentence) for sentence in sentences]
    assert tagger.tag([]) == [] and tagger.tag_sents([]) == []
    assert tagger.accuracy(TRAIN[:2]) == tagger.evaluate(TRAIN[:2]) == 1.0
    assert tagger.accuracy([[("the", "DT"), ("dog", "DT")]]) == 0.5
    tagger.save(tmp_path / "m")
    again = NltkTagger.load(tmp_path / "m", feature_func=function)
    assert again.tag(["the", "cat"]) == tagger.tag(["the", "cat"])


def test_options_and_what_makes_no_sense():
    given = Tagger("perceptron", template="words", max_iter=3)
    assert NltkTagger(given).train(TRAIN[:2]).tagger.criterion == "perceptron"
    assert not hasattr(given, "model_")
    with pytest.raises(OptionError, match="neither a template nor a feature_func"):
        NltkTagger(Tagger())
    with pytest.raises(OptionError, match="both a template and a feature_func"):
        NltkTagger(given, looks)
    with pytest.raises(DataError, match=r"sentence 0 \(from 0\) is not a list of \(token, tag\)"):
        NltkTagger().train([["the", "dog"]])
    with pytest.raises(DataError, match="needs a token"):
        NltkTagger().train(TRAIN).accuracy([[]])


def test_it_is_one_of_nltks_taggers():
    api = pytest.importorskip("nltk.tag.api", reason="needs NLTK: pip install 'loglinear[nltk]'")

    tagger = NltkTagger().train(TRAIN)
    assert isinstance(tagger, api.TaggerI)
    assert tagger.precision(TRAIN[:2]) == {"DT": 1.0, "NN": 1.0, "VB": 1.0}
    assert tagger.confusion(TRAIN[:2])["DT", "DT"] == 2
    assert api.TaggerI.accuracy(tagger, TRAIN[:2]) == tagger.accuracy(TRAIN[:2])


@pytest.mark.parametrize("heading", ["NLTK", "scikit-learn"])
def test_the_guide(heading, capsys):
    run_guide(heading)
    assert "('dog', 'NN')" in capsys.readouterr().out or heading == "scikit-learn"
