"""The parser: constituency trees of sentences, by a grammar read off a treebank."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from loglinear import model_file
from loglinear.arrays import Arrays, Float
from loglinear.data.trees.annotation import TreeTransform
from loglinear.data.trees.cleaning import rooted
from loglinear.data.trees.transforms import restore
from loglinear.data.trees.tree import Tree, tree_word
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import OfferedIf
from loglinear.estimators.estimator import (
    MOST_DRAWS,
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    notes_of,
    read_notes,
    restore_notes,
    trains,
    whole_number,
)
from loglinear.estimators.options import ParserOptions
from loglinear.estimators.parser import file as parser_file
from loglinear.estimators.parser.inputs import (
    Example,
    cleaned_trees,
    given_examples,
    given_sentences,
    gold_trees,
)
from loglinear.estimators.parser.model import MOST_WORDS, Parse, TreeModel, best_parses
from loglinear.estimators.parser.problem import (
    STREAM,
    TREE_CRITERIA,
    CountedPcfg,
    PcfgByEM,
    Treebank,
    check_counted,
    check_parser,
    f1_of,
    in_current_spelling,
    labelled,
    labels_of,
    warn_of_old_names,
)
from loglinear.estimators.summary import Summary, check_same_size, digest_of, from_counts, merged, options_of
from loglinear.features.spans import Own
from loglinear.generative.pcfg.counts import TreebankCounts, count_trees
from loglinear.generative.pcfg.em import ExpectedRules, SentenceCounts, maximised
from loglinear.generative.pcfg.model import PCFG, draw_trees
from loglinear.model_file import Reader
from loglinear.options import check, declared, documented
from loglinear.system import thread_count
from loglinear.training.dev import Dev
from loglinear.training.plan import refuse_iterating, unused_options_note
from loglinear.training.run import rounds_note, train
from loglinear.wording import how_many


@documented
class Parser(ParserOptions, TrainedEstimator[TreeModel]):
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
        The trees, or sentences, that it was trained on, and their words.
    objective_, n_iter_, converged_, message_, seconds_, history_ : how training went.
    dev_score_, best_iteration_ : F1 of brackets and iteration of the weights kept, None without dev data.
    interrupted_ : bool
        Whether Ctrl-C or a signal ended it early, after an iteration; the model is then what was learnt by then.
    """

    kind = parser_file.KIND
    functions = ("span_features",)
    model_: TreeModel
    classes_: list[str]
    n_trees_: int
    n_words_: int
    interrupted_: bool
    _em_over_parts: list[float] | None = None  # the objectives of its rounds, if it has begun
    _file_seconds: float | None = (
        None  # those in a file of 0.1.0; they differ from run to run, so that new files have none
    )

    def check_options(self) -> None:
        """Refuse options that make no sense, by themselves or together."""
        check(self)
        if not isinstance(self.marks, str):
            raise OptionError(f"marks={self.marks!r:.60} must be a string of characters")
        check_parser(self)
        self._transform()

    @property
    def takes_sentences(self) -> bool:
        """Whether training also takes sentences without a tree, as that by EM does."""
        return TREE_CRITERIA.part(self.criterion).takes_sentences

    def _transform(self) -> TreeTransform:
        """How the options ask for trees to be transformed."""
        annotation = self.annotation
        if annotation is None:
            annotation = "none" if self.marks else "rich" if self.vertical is None else "parent"
        if annotation != "parent" and self.vertical is not None:
            raise OptionError(f"vertical={self.vertical} goes with annotation='parent', not {annotation!r}")
        vertical = 2 if self.vertical is None else self.vertical
        return TreeTransform(annotation, vertical, self.horizontal, self.factor, self.marks)

    @trains
    def fit(
        self,
        X: Sequence[Tree | str | Sequence[str]],
        y: Any = None,
        X_dev: Sequence[Tree | str | Sequence[str]] | None = None,
        y_dev: Any = None,
        *,
        init: Parser | str | Path | None = None,
        **run: Unpack[RunKeywords],
    ) -> Parser:
        """Train on trees, or by EM also on sentences with some brackets or none.

        Parameters
        ----------
        X : list of Tree or of str
            A treebank; strings are bracketed trees. Traces are removed, and function tags unless they are kept.
            ``pcfg-em`` and ``m-estimation`` also take sentences without trees: lists of words, or strings that do not
            begin with a bracket.
        y : list, optional
            For these two, what is known of each sentence: a tree, a list of brackets (first word, end) that no
            constituent may cross, or None. Others ignore it.
        X_dev, y_dev : list of Tree or of str, optional
            Trees to stop early by; the weights with the best F1 of brackets are kept. For ``pcfg-em`` as ``X`` and
            ``y``; where not all of them are trees, those are kept that give the words the greatest probability.
        init : Parser or path, optional
            Start from the weights of this model where it has the same rules and attributes; with ``pcfg-em`` from its
            probabilities, and from nowhere else.
        KEYWORDS
        """
        self.check_options()
        begin = time.perf_counter()
        options = in_current_spelling(self)
        warn_of_old_names(self, options)
        criterion: Any = TREE_CRITERIA.spec(options.criterion).make()
        self.interrupted_, self._file_seconds, self._em_over_parts = False, None, None
        if isinstance(criterion, CountedPcfg):
            refuse_iterating(criterion.name, criterion.is_trained, init=init, dev=X_dev)
            return self.from_summaries([self.summarize(X, y)])
        examples = self._examples(X, y)
        trees = [each.tree for each in examples if each.tree is not None]
        treebank = Treebank(examples, self._transform().apply(trees))
        other = Parser.load(init, self.span_features) if isinstance(init, str | Path) else init
        start = None if other is None else other._fitted()
        training = criterion.training(treebank, options, start)
        self.model_, outcome = train(training, options, dev=Dev.of(training, X_dev, y_dev), init=start, **run)
        keep_outcome(self, outcome)
        self.message_ = f"{criterion.counts(training)}; {outcome.message}"
        if getattr(training, "hidden", None) is not None:
            self.message_ += rounds_note(outcome.history)
        else:
            self.message_ += unused_options_note(options.criterion, TREE_CRITERIA, "trees")
        self.interrupted_ = outcome.interruption is not None
        training.describe_in(self)
        self.seconds_ = time.perf_counter() - begin
        outcome.raise_interruption()
        return self

    # -- parts ---------------------------------------------------------------------------------------------------------

    @OfferedIf(lambda parser: check_counted(parser))
    def summarize(self, X: Sequence[Tree | str | Sequence[str]], y: Any = None) -> Summary:
        """What a part of the data contributes to a grammar of ``pcfg`` or ``pcfg-em``, for :meth:`from_summaries`.

        Counts of the part, whatever is in the others. In the middle of EM, which :meth:`from_summaries` has begun, they
        are the uses of rules expected under the grammar so far. Arguments as for :meth:`fit`.
        """
        self.check_options()
        check_counted(self)
        options, examples = in_current_spelling(self), self._examples(X, y)
        if self._em_over_parts is not None:
            grammar, criterion = self._grammar(), TREE_CRITERIA.spec(options.criterion).make()
            assert isinstance(criterion, PcfgByEM)
            found = criterion.expected(examples, grammar, thread_count(self.threads))
            return Summary(self.kind, options_of(options), found, _digest(grammar))
        trees = [each.tree for each in examples if each.tree is not None]
        labels = {node.label for tree in trees for node in tree.nodes()}
        counts = count_trees(self._transform().unshortened.apply(trees), labels) if trees else None
        if not self.takes_sentences:
            return Summary(self.kind, options_of(options), counts)
        words = Counter(word for example in examples for word in example.words)
        return Summary(self.kind, options_of(options), SentenceCounts(counts, words, len(examples)))

    @OfferedIf(lambda parser: check_counted(parser))
    def from_summaries(
        self, summaries: Iterable[Summary | str | Path], init: Parser | str | Path | None = None
    ) -> Parser:
        """The grammar of all parts together.

        For ``pcfg`` it is what :meth:`fit` learns from all trees one after the other, to the last bit, for any cut into
        parts.

        For ``pcfg-em`` the first call gives the grammar that EM starts from, the one :meth:`fit` starts from without
        restarts; each further call is a round, from summaries of the parts that were made with the grammar so far.
        ``objective_`` is then minus that of the grammar that the round began with, and ``converged_`` says whether the
        last round gained less than ``tolerance``. A worker gets the parser as a pickle: a model file holds the grammar,
        but not that EM has begun.

        Parameters
        ----------
        summaries : iterable of Summary or path
            What :meth:`summarize` made of each part, or files of these.
        init : Parser or path, optional
            For the first call of EM, start from the probabilities of this grammar.
        """
        self.check_options()
        check_counted(self)
        begin, options = time.perf_counter(), in_current_spelling(self)
        criterion: Any = TREE_CRITERIA.spec(options.criterion).make()
        summary = merged(options, summaries)
        counts: TreebankCounts | SentenceCounts | ExpectedRules = summary.counts
        if init is not None and not isinstance(counts, SentenceCounts):
            raise OptionError("init: it is for the first summaries of pcfg-em, which are made without a grammar")
        other = self._opened(init)
        with from_counts():
            if isinstance(counts, ExpectedRules):
                self._climb(counts, summary.model, criterion.smoothing, options.tolerance)
            elif isinstance(counts, SentenceCounts):
                self._start(criterion.first(counts, self._transform(), self.seed, other and other._fitted()), counts)
            else:
                self._count(counts, *criterion.counted(counts.renamed(self._transform().renamed(counts.nodes))))
        self.interrupted_, self._file_seconds = False, None
        self.seconds_ = time.perf_counter() - begin
        return self

    def _count(self, counts: TreebankCounts, grammar: PCFG, message: str) -> None:
        """Take over a counted grammar."""
        self.model_, self._em_over_parts = grammar, None
        restore_notes(self, {"converged": True, "message": message})
        self.classes_, self.n_trees_, self.n_words_ = sorted(counts.labels), counts.n_trees, counts.n_words

    def _start(self, grammar: PCFG, counts: SentenceCounts) -> None:
        """Begin EM with a grammar."""
        self.model_, self._em_over_parts, self.classes_ = grammar, [], labels_of(grammar)
        self.n_trees_, self.n_words_ = counts.n_sentences, counts.words.total()
        restore_notes(self, {"message": "the start of EM: summarize the parts with it for a round"})

    def _climb(self, found: ExpectedRules, digest: str, smoothing: float, tolerance: float) -> None:
        """A round of EM."""
        grammar = self._grammar()
        if _digest(grammar) != digest:
            raise OptionError("the summaries were made with another model than this one; make them again with this one")
        if not found.n_sentences:
            raise DataError("the grammar that EM starts from can parse none of the sentences; start=random parses all")
        counts = found.counts(grammar, smoothing)
        after = maximised(grammar, counts, smoothing)
        check_same_size(grammar.parameters, after.parameters)
        self.model_ = after
        objectives = [*(self._em_over_parts or ()), counts.objective]
        self._em_over_parts, last, n = objectives, objectives[-2:], len(objectives)
        converged = len(last) == 2 and last[1] - last[0] <= tolerance * abs(last[1])
        left_out = f"; {how_many(found.left_out, 'sentence')} without a tree left out" if found.left_out else ""
        how = f"{'converged' if converged else 'not yet converged'} after {how_many(n, 'round')} over parts{left_out}"
        notes = {"converged": converged, "message": how, "objective": -counts.objective, "iterations": n}
        restore_notes(self, notes)
        self.n_trees_, self.n_words_ = found.n_sentences, found.n_words

    def _grammar(self) -> PCFG:
        model = self._fitted()
        assert isinstance(model, PCFG)
        return model

    def _examples(self, X: Any, y: Any) -> list[Example]:
        """What to learn from."""
        if self.takes_sentences:
            examples, what = given_examples(self, X, y), "sentence"
        else:
            examples, what = [Example(tree.leaves(), tree) for tree in cleaned_trees(self, X)], "tree"
        if not examples:
            raise DataError(f"there is no {what} with a word to train on")
        if self.max_length is not None:
            examples = [example for example in examples if len(example.words) <= self.max_length]
        if not examples:
            raise DataError(f"no {what} has at most max_length={self.max_length} words")
        return examples

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
        for name in ("time_limit", "beam", "decoding"):
            declared(ParserOptions)[name].check(getattr(self, name))
        sentences = given_sentences(X)
        posterior, beam = self.decoding == "posterior", np.inf if self.beam is None else self.beam
        return best_parses(model, sentences, thread_count(self.threads), self.time_limit, observe, posterior, beam)

    def predict(self, X: Sequence[Sequence[str] | str]) -> list[Tree]:
        """The best tree of each sentence; ``(ROOT (NOPARSE ...))`` where there is none."""
        return [parse.tree for parse in self.parse(X)]

    def score(self, X: Sequence[Tree | str], y: Any = None) -> float:
        """F1 of labelled brackets, from 0 to 1, of the parses of the words of trees, given as to :meth:`fit`.

        With ``pcfg-em:start=random`` the labels are not compared: EM's symbols are not those of a treebank.
        """
        gold = gold_trees(self, X)
        return f1_of(gold, self.parse([tree.leaves() for tree in gold]), labelled(self))

    # -- densities: of grammars of probabilities alone -----------------------------------------------------------------

    def log_prob(self, X: Sequence[Sequence[str] | str]) -> Float:
        """log p(words) of each sentence [S], the sum over all its trees; -inf for one that has none.

        For models of the criteria ``pcfg`` and ``pcfg-em``. The sentence's length is part of the density: the
        probabilities of all sentences add up to one, if the grammar is tight (``loglinear inspect`` says so).

        Parameters
        ----------
        X : list of list of str
            Sentences in words; a string is split at blanks.
        """
        density = self._density("log_prob")
        sentences = [[tree_word(word) for word in words] for words in given_sentences(X)]
        for number, words in enumerate(sentences):
            if len(words) > MOST_WORDS:
                raise DataError(
                    f"sentence {number} (from 0) has {how_many(len(words), 'word')}; {MOST_WORDS:,} are the most"
                )
        return density.log_probability(sentences, thread_count(self.threads))

    def sample(self, n: int = 1, *, seed: int | None = None) -> list[Tree]:
        """``n`` trees with their words, drawn independently from p(tree, words), as :meth:`predict` would write them.

        For models of the criteria ``pcfg`` and ``pcfg-em``. Words that the model does not know are drawn as their
        class, as in ``<lower-ing>``.

        Parameters
        ----------
        n : int
        seed : int, optional
            The parser's if None.
        """
        density = self._density("sample")
        n, seed = whole_number("n", n, 1, MOST_DRAWS), whole_number("seed", self.seed if seed is None else seed, 0)
        return [rooted(restore(tree)) for tree in draw_trees(density, n, np.random.default_rng([seed, STREAM]))]

    def _density(self, wanted: str) -> PCFG:
        """The grammar, if it has p(tree, words)."""
        model = self._fitted()
        if isinstance(model, PCFG):
            return model
        name = TREE_CRITERIA.part(self.criterion).name
        reason = "its p(tree, words) is not normalised" if name == "m-estimation" else "it has no p(words)"
        raise OptionError(f"{wanted}: criterion={name!r}: {reason}; models of pcfg and pcfg-em can do it")

    # -- files ---------------------------------------------------------------------------------------------------------

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        training = {
            **notes_of(self),
            "trees": self.n_trees_,
            "words": self.n_words_,
            **({} if self._file_seconds is None else {"seconds": self._file_seconds}),
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
        self.message_ = notes.text("message")
        self.seconds_ = self._file_seconds = notes.number("seconds") if "seconds" in notes.header else None


def _digest(grammar: PCFG) -> str:
    """What tells a grammar from another one."""
    return digest_of(grammar.parameters, [grammar.symbols, grammar.lexicon.terminals])
