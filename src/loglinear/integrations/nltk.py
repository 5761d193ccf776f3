"""A tagger with the interface of ``nltk.tag``: ``train``, ``tag``, ``tag_sents`` and ``accuracy``.

Where NLTK is installed, :class:`NltkTagger` is one of its taggers (``nltk.tag.api.TaggerI``), whose further measures
(``confusion``, ``precision``, ``recall``, ``f_measure``, ...) it then has as well; it works without NLTK, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from loglinear import Tagger
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import clone

try:
    from nltk.tag.api import TaggerI
except ImportError:
    TaggerI = object

Tagged = Sequence[tuple[str, Any]]


class NltkTagger(TaggerI):
    """A :class:`loglinear.Tagger` of plain tokens, behind NLTK's interface.

    Parameters
    ----------
    tagger : Tagger, optional
        A trained one, or options to train by; by default one with the template of parts of speech (``pos``), or without
        any if there is a ``feature_func``. Of columns, tokens are the first one and all that there is.
    feature_func : callable, optional
        From the tokens of a sentence and a position to the token's features, a list of strings or a dict, as
        ``nltk.tag.CRFTagger`` takes it. Model files do not hold it.

    >>> tagger = NltkTagger().train([[("the", "DT"), ("dog", "NN")], [("the", "DT"), ("cat", "NN")]])
    >>> tagger.tag(["the", "dog"])
    [('the', 'DT'), ('dog', 'NN')]
    """

    def __init__(
        self, tagger: Tagger | None = None, feature_func: Callable[[list[str], int], Any] | None = None
    ) -> None:
        given = Tagger(template="pos" if feature_func is None else None) if tagger is None else tagger
        if (given.template is None) == (feature_func is None):
            what = (
                "neither a template nor a feature_func"
                if feature_func is None
                else "both a template and a feature_func"
            )
            raise OptionError(f"the tagger has {what}; give one of both to say what tokens are looked at by")
        self.tagger, self.feature_func = given, feature_func

    def train(self, train_data: Iterable[Tagged]) -> Self:
        """Learn from tagged sentences, lists of (token, tag); a tag of None is unknown. Sentences may be empty."""
        sentences = [list(sentence) for sentence in train_data]
        for i, sentence in enumerate(sentences):
            if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in sentence):
                raise DataError(f"sentence {i} (from 0) is not a list of (token, tag)")
        sentences = [sentence for sentence in sentences if sentence]
        tokens = [[token for token, _ in sentence] for sentence in sentences]
        self.tagger = clone(self.tagger).fit(self._features(tokens), [[tag for _, tag in each] for each in sentences])
        return self

    def tag(self, tokens: Sequence[str]) -> list[tuple[str, str]]:
        """The tokens with their tags."""
        return self.tag_sents([tokens])[0]

    def tag_sents(self, sentences: Iterable[Sequence[str]]) -> list[list[tuple[str, str]]]:
        """The tokens of each sentence with their tags."""
        given = [list(sentence) for sentence in sentences]
        full = [sentence for sentence in given if sentence]
        labels = iter(self.tagger.predict(self._features(full)) if full else [])
        return [list(zip(sentence, next(labels), strict=True)) if sentence else [] for sentence in given]

    def accuracy(self, gold: Iterable[Tagged]) -> float:
        """Share of the tokens of tagged sentences that get the same tag."""
        sentences = [list(sentence) for sentence in gold]
        found = self.tag_sents([[token for token, _ in sentence] for sentence in sentences])
        pairs = [
            tag == own
            for sentence, tagged in zip(sentences, found, strict=True)
            for (_, own), (_, tag) in zip(sentence, tagged, strict=True)
        ]
        if not pairs:
            raise DataError("accuracy needs a token")
        return sum(pairs) / len(pairs)

    def evaluate(self, gold: Iterable[Tagged]) -> float:
        """:meth:`accuracy`, under its old name."""
        return self.accuracy(gold)

    def save(self, path: str | Path) -> None:
        """Write the model file; the ``feature_func`` is not in it."""
        self.tagger.save(path)

    @classmethod
    def load(cls, path: str | Path, feature_func: Callable[[list[str], int], Any] | None = None) -> Self:
        """Read a model file; one that was trained with a ``feature_func`` needs it again."""
        return cls(Tagger.load(path), feature_func)

    def _features(self, sentences: list[list[str]]) -> list[list[Any]]:
        """Rows of a single column, or what the user's function makes."""
        function = self.feature_func
        if function is None:
            return [[(token,) for token in tokens] for tokens in sentences]
        return [[function(tokens, i) for i in range(len(tokens))] for tokens in sentences]
