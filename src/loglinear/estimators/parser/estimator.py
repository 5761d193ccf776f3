"""The parser: constituency trees of sentences, by a grammar read off a treebank."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator

from loglinear import model_file
from loglinear.arrays import Arrays
from loglinear.data.trees.annotation import TreeTransform
from loglinear.data.trees.cleaning import clean, without_marks
from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import DataError, OptionError
from loglinear.estimators.estimator import Estimator, keep_outcome, notes_of, read_notes, restore_notes
from loglinear.estimators.options import ParserOptions
from loglinear.estimators.parser import file as parser_file
from loglinear.estimators.parser.model import Parse, TreeModel, best_parses
from loglinear.estimators.parser.problem import (
    TREE_CRITERIA,
    TreeTraining,
    check_parser,
    spelled_anew,
    tell,
    warn_of_old_names,
)
from loglinear.evaluation.brackets import bracket_scores
from loglinear.features.spans import Own
from loglinear.model_file import Reader
from loglinear.options import check, declared, documented
from loglinear.system import thread_count
from loglinear.training.dev import Dev
from loglinear.training.plan import refuse_iterating
from loglinear.training.run import Progress, train


@documented
class Parser(ParserOptions, Estimator[TreeModel], BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Parse sentences into constituency trees.

    >>> parser = Parser().fit(read_treebank("train.mrg"))  # doctest: +SKIP
    >>> print(parser.predict([["The", "dog", "ran", "."]])[0])  # doctest: +SKIP
    (ROOT (S (NP (DT The) (NN dog)) (VP (VBD ran)) (. .)))

    PARAMETERS

    Attributes
    ----------
    model_
        The trained model: ``grammar`` and ``scores(sentences)``.
    classes_ : list of str
        Phrase labels and parts of speech of the training trees.
    n_trees_, n_words_ : int
        What it was trained on.
    objective_, n_iter_, converged_, message_, seconds_, history_ : how training went.
    dev_score_, best_iteration_ : F1 of brackets and iteration of the weights kept, None without dev data.
    interrupted_ : bool
        Whether Ctrl-C or a signal ended it early, after an iteration; the model is then what was learnt by then.
    """

    kind = parser_file.KIND
    functions = ("span_features",)
    model_: TreeModel
    message_: str
    seconds_: float | None
    history_: list[Progress]
    classes_: list[str]
    n_trees_: int
    n_words_: int
    interrupted_: bool

    def check_options(self) -> None:
        """Refuse options that make no sense, by themselves or together."""
        check(self)
        if not isinstance(self.marks, str):
            raise OptionError(f"marks={self.marks!r:.60} must be a string of characters")
        check_parser(self)
        self._transform()

    def _transform(self) -> TreeTransform:
        """How the options ask for trees to be transformed."""
        annotation = self.annotation
        if annotation is None:
            annotation = "none" if self.marks else "rich" if self.vertical is None else "parent"
        if annotation != "parent" and self.vertical is not None:
            raise OptionError(f"vertical={self.vertical} goes with annotation='parent', not {annotation!r}")
        vertical = 2 if self.vertical is None else self.vertical
        return TreeTransform(annotation, vertical, self.horizontal, self.factor, self.marks)

    def fit(
        self,
        X: Sequence[Tree | str],
        y: Any = None,
        X_dev: Sequence[Tree | str] | None = None,
        y_dev: Any = None,
        *,
        init: Parser | str | Path | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        resume: bool = False,
        observe: Callable[[Progress], None] | None = None,
    ) -> Parser:
        """Train on trees.

        Parameters
        ----------
        X : list of Tree or of str
            A treebank; strings are bracketed trees. Traces are removed, and function tags unless they are kept.
        X_dev : list of Tree or of str, optional
            Trees to stop early by; the weights with the best F1 of brackets are kept.
        y, y_dev : ignored
        init : Parser or path, optional
            Start from the weights of this model where it has the same rules and attributes.
        checkpoint : path, optional
            File that keeps a usable model and all that is needed to go on, written every ``checkpoint_seconds`` and
            when training is interrupted. Remove it when you have saved the model.
        resume : bool
            Go on from ``checkpoint`` if it is there.
        observe : callable, optional
            Called with a :class:`~loglinear.training.run.Progress` after each iteration.
        """
        self.check_options()
        begin = time.perf_counter()
        options, trees = spelled_anew(self), self._cleaned(X)
        warn_of_old_names(self, options)
        criterion: Any = TREE_CRITERIA.spec(options.criterion).make()
        binary = self._transform().apply(trees)
        self.interrupted_ = False
        if not criterion.learns_weights:
            refuse_iterating(criterion.name, "is counted", init=init, dev=X_dev)
            self.model_, message = criterion.counted(binary)
            restore_notes(self, {"converged": True, "message": message})
            tell(self, trees)
            self.seconds_ = time.perf_counter() - begin
            return self
        problem = criterion.problem(binary, self.span_features)
        training = TreeTraining(
            trees, binary, criterion, problem, options.cost, self.seed, thread_count(self.threads), self._gold
        )
        other = Parser.load(init, self.span_features) if isinstance(init, str | Path) else init
        self.model_, outcome = train(
            training, options, dev=Dev.of(training, X_dev), init=None if other is None else other._fitted(),
            checkpoint=checkpoint, checkpoint_seconds=checkpoint_seconds, resume=resume, observe=observe,
        )  # fmt: skip
        keep_outcome(self, outcome)
        self.message_ = f"{criterion.counts(training)}; {outcome.message}"
        self.interrupted_ = outcome.interruption is not None
        tell(self, trees)
        self.seconds_ = time.perf_counter() - begin
        outcome.raise_interruption()
        return self

    def _cleaned(self, trees: Sequence[Tree | str]) -> list[Tree]:
        cleaned = (clean(tree, self.function_tags, self.marks) for tree in given_trees(trees))
        kept = [tree for tree in cleaned if tree is not None]
        if not kept:
            raise DataError("there is no tree with a word to train on")
        if self.max_length is not None:
            kept = [tree for tree in kept if len(tree.leaves()) <= self.max_length]
        if not kept:
            raise DataError(f"no tree has at most max_length={self.max_length} words")
        return kept

    # -- use -----------------------------------------------------------------------------------------------------------

    def parse(self, X: Sequence[Sequence[str] | str], *, observe: Callable[[], Any] | None = None) -> list[Parse]:
        """The best tree of each sentence with its score, and why there is none where it is a fallback tree.

        Parameters
        ----------
        X : list of list of str
            Sentences in words; a string is split at blanks.
        observe : callable, optional
            Called after each sentence, by the thread that parsed it.
        """
        model = self._fitted()
        for name in ("time_limit", "decoding"):
            declared(ParserOptions)[name].check(getattr(self, name))
        sentences = given_sentences(X)
        posterior = self.decoding == "posterior"
        return best_parses(model, sentences, thread_count(self.threads), self.time_limit, observe, posterior)

    def predict(self, X: Sequence[Sequence[str] | str]) -> list[Tree]:
        """The best tree of each sentence; ``(ROOT (NOPARSE ...))`` where there is none."""
        return [parse.tree for parse in self.parse(X)]

    def score(self, X: Sequence[Tree | str], y: Any = None) -> float:
        """F1 of labelled brackets, from 0 to 1, of the parses of the words of trees, given as to :meth:`fit`."""
        gold = self._gold(X)
        parses = self.parse([tree.leaves() for tree in gold])
        failed = [bool(parse.failure) for parse in parses]
        return bracket_scores(gold, [parse.tree for parse in parses], failed=failed).f1 / 100

    def _gold(self, X: Any) -> list[Tree]:
        """Trees that parses are compared with."""
        cleaned = (clean(tree, self.function_tags, self.marks) for tree in given_trees(X))
        return [without_marks(tree, self.marks) for tree in cleaned if tree is not None]

    # -- files ---------------------------------------------------------------------------------------------------------

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        training = {
            **notes_of(self),
            "trees": self.n_trees_,
            "words": self.n_words_,
            "seconds": self.seconds_,
            "message": self.message_,
        }
        return parser_file.to_storage(model, self._stored_options(), self.classes_, training)

    @classmethod
    def load(cls, source: str | Path | bytes, span_features: Own | None = None) -> Self:
        """Read a model from a file or from its bytes. Loading runs no code of the file's.

        ``span_features`` is the function that the model was trained with, if it was.
        """
        return cls._read(model_file.read(source, cls.kind), {"span_features": span_features})

    @classmethod
    def _check_given(cls, read: Reader, given: Mapping[str, Any]) -> None:
        parser_file.check_given(read, given.get("span_features"))

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        looks_at_words = TREE_CRITERIA.part(self.criterion).learns_weights
        self.model_ = parser_file.from_storage(read, looks_at_words, given.get("span_features"))
        restore_notes(self, read_notes(read))
        self.interrupted_ = False
        self.classes_, notes = read.names("labels"), read.section("training")
        self.n_trees_, self.n_words_ = notes.integer("trees"), notes.integer("words")
        self.seconds_, self.message_ = notes.number("seconds"), notes.text("message")


# ----------------------------------------------------------------------------------------------------------------------
# What a parser is given, as lists of trees and of sentences; what is neither is refused, saying what is wanted.


TREES = "a list of trees, each a Tree or a string in brackets"
SENTENCES = "a list of sentences, each a list of words or a string with blanks between them"


def given_trees(X: Any) -> list[Tree]:
    """The trees of ``X``; strings are bracketed trees."""
    return [_tree(number, tree) for number, tree in enumerate(_items(X, TREES))]


def _tree(number: int, given: Any) -> Tree:
    if isinstance(given, Tree):
        return given
    if not isinstance(given, str):
        raise DataError(f"tree {number} (from 0) is {given!r:.60}; give {TREES}")
    try:
        return parse_tree(given)
    except DataError as error:
        raise DataError(f"tree {number} (from 0): {error.message}") from None


def given_sentences(X: Any) -> list[list[str]]:
    """The sentences of ``X`` in words; strings are split at blanks."""
    return [_words(number, words) for number, words in enumerate(_items(X, SENTENCES))]


def _words(number: int, given: Any) -> list[str]:
    where = f"sentence {number} (from 0)"
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise DataError(f"{where} is {given!r:.60}; give {SENTENCES}")
    words = given.split() if isinstance(given, str) else list(given)
    for word in words:
        if not isinstance(word, str):
            raise DataError(f"{where} has {word!r:.60} for a word; a word is a string")
    if not words or not all(words):
        raise DataError(f"{where} has no word, or an empty one; leave it out")
    if any(character.isspace() for word in words for character in word):
        raise DataError(f"{where}: a word may not hold blanks; a sentence is a list of words")
    return words


def _items(X: Any, wanted: str) -> Iterable[Any]:
    """``X``, unless it is one thing instead of a list."""
    if isinstance(X, str | bytes | bytearray | dict) or not isinstance(X, Iterable):
        raise DataError(f"{X!r:.60} is of type {type(X).__name__}; give {wanted}")
    return X
