"""Trains the small models whose files, as version 0.1.0 wrote them, are kept in ``models/``.

``make.py models`` calls :func:`make_all`; pytest does not. A recipe is a function that gives a model file's bytes and
the questions that are put to it (:mod:`model_answers`). Training is no part of the promise that
``test_models_of_0_1_0.py`` keeps: a file, once there, is only read. Add recipes for new kinds of content; leave the
files of old ones alone.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_records
from command_line import output_of
from model_answers import KINDS, MACHINE, Question, answers, loaded, metadata_of
from own_functions import EvenBase, ScoredWordsByLabel, WordsByLabel, clues, length_of_span, meanings, shape_and_end
from small_data import (
    PHRASES,
    REVIEWS,
    STARS,
    TABLE,
    TREEBANK,
    clouds,
    conllu,
    counts,
    dependencies,
    sequences,
    trees,
    words_of,
)

from loglinear import (
    HMM,
    Classifier,
    DependencyParser,
    Gazetteer,
    LeastSquares,
    Mixture,
    NaiveBayes,
    Parser,
    Ridge,
    Tagger,
)

Made = tuple[bytes, Question]
RECIPES: dict[str, Callable[[], Made]] = {}  #: by the model's name

WORDS_AND_TAGS = "U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[-1,1]/%x[0,1]\nB\n"
MACROS = """\
# every macro, a capital that lowers, a row from the start, a pair of labels, an attribute without a label pair
U0:%X[0,0]
U1:%Suffix[0,0,2]/%prefix[0,0,1]
U2:%t[0,0,"^\\u"]
U3:%m[0,0,"[aeiou]+"]
U4:%shape[0,0]
U5:%x[@1,1]
*6:%x[0,1]
B
"""


def recipe(name: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Decorator: the recipe of the model of this name."""

    def keep(function: Callable[[], Made]) -> Callable[[], Made]:
        assert name not in RECIPES, name
        RECIPES[name] = function
        return function

    return keep


def make_all(folder: Path, names: list[str]) -> None:
    """Write model files into ``folder``/models, all or those named, each with its questions and answers."""
    for name in names or RECIPES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that so small a training did not converge is no news
            content, question = RECIPES[name]()
        (folder / "models").mkdir(parents=True, exist_ok=True)
        (folder / "models" / f"{name}.model").write_bytes(content)
        answer(folder / "models", folder / "models", name, question)
    golden_records.write(folder / "models" / MACHINE, golden_records.machine())


def answer_all(folder: Path) -> None:
    """Put the questions of all records to the model files here, and write what is answered into ``folder``/models."""
    source = golden_records.HERE / "models"
    for path in sorted(source.glob("*.model")):
        answer(source, folder / "models", path.stem, golden_records.read(path.with_suffix(".json"))["question"])
    golden_records.write(folder / "models" / MACHINE, golden_records.machine())


def answer(source: Path, target: Path, name: str, question: Question) -> None:
    """Ask the model file ``name`` in ``source`` and write its record into ``target``."""
    path = source / f"{name}.model"
    estimator = question.get("estimator", KINDS[metadata_of(path.read_bytes())["kind"]])
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch:
        warnings.simplefilter("ignore")
        found = answers(loaded(name, path, estimator), path, question, Path(scratch))
    record = {"estimator": estimator, "question": question, "answers": found}
    golden_records.write(target / f"{name}.json", golden_records.plain(record))


# -- taggers -------------------------------------------------------------------------------------------------------


def _tagged(**more: Any) -> Question:
    """Questions on two sentences that are not in the training data: rows, labels, and what is known of some."""
    X = [
        [("The", "DT"), ("bank", "NN"), ("refused", "VBD"), ("a", "DT"), ("deal", "NN"), (".", ".")],
        [("Who", "WP"), ("came", "VBD"), ("?", ".")],
    ]
    y = [["B-NP", "I-NP", "B-VP", "B-NP", "I-NP", "O"], ["B-NP", "B-VP", "O"]]
    given: list[list[Any]] = [["O", None, None, None, None, None], [None, ["I-VP", "O"], None]]
    return {"X": X, "y": y, "given": given, "file": "rows.txt", "text": _column_text(X), **more}


def _column_text(X: list[Any]) -> str:
    """Sentences as a column file."""
    rows = [[row if isinstance(row, str) else " ".join(row) for row in x] for x in X]
    return "".join("".join(f"{row}\n" for row in x) + "\n" for x in rows)


def _of_words(question: Question) -> Question:
    """The same questions on words alone."""
    X = words_of(question["X"])
    return {**question, "X": X, "text": _column_text(X)}


def _known_labels(question: Question, tagger: Any) -> Question:
    """The same without labels that the model does not know: they are replaced by its first."""
    classes = list(tagger.classes_)
    y = [[label if label in classes else classes[0] for label in labels] for labels in question["y"]]
    given = [
        [
            [each for each in label if each in classes] or None if isinstance(label, list)
            else label if label in classes else None
            for label in labels
        ]
        for labels in question["given"]
    ]  # fmt: skip
    return {**question, "y": y, "given": given}


def _simple(n: int = 8, longest: int = 9) -> tuple[list[Any], list[list[str]]]:
    """Sentences of noun and verb phrases alone."""
    return sequences("chunk", n, longest, labels=PHRASES)


def _chunker(n: int = 8, question: Question | None = None, **options: Any) -> Made:
    tagger = Tagger(**{"template": WORDS_AND_TAGS, "threads": 1, **options}).fit(*_simple(n))
    return tagger.to_bytes(), _known_labels(question or _tagged(), tagger)


@recipe("tagger-chain")
def _() -> Made:
    tagger = Tagger(template="chunking", constraints="bio", l2=0.1, threads=1).fit(*sequences("chunk", 10, 7))
    return tagger.to_bytes(), _known_labels(_tagged(nbest=2), tagger)


@recipe("tagger-float64")
def _() -> Made:
    return _chunker(precision="float64", states="all", transitions="all", max_iter=10)


@recipe("tagger-pruned-float16")
def _() -> Made:
    return _chunker(n=19, precision="float16", prune=0.7, l2=0.01)


@recipe("tagger-second-order")
def _() -> Made:
    return _chunker(order=2, l1=0.05, l2=0.05, question=_tagged(nbest=2))


@recipe("tagger-pair-features")
def _() -> Made:
    return _chunker(n=10, pair_features=True, optimizer="lbfgs", min_count=2, l2=0.1)


@recipe("tagger-macros")
def _() -> Made:
    return _chunker(n=10, template=MACROS, optimizer="lbfgs", l2=0.1)


@recipe("tagger-no-transitions")
def _() -> Made:
    return _chunker(template="U0:%x[0,0]\nU1:%x[0,1]\n")


@recipe("tagger-own-constraints")
def _() -> Made:
    rules = {"scheme": "bio", "forbidden": [["I-VP", "I-NP"], ["O", "B-VP"]], "ends": ["O"]}
    return _chunker(constraints=rules, l2=0.1)


@recipe("tagger-hashed")
def _() -> Made:
    return _chunker(n=8, template="chunking", hash_bits=8, l2=0.1)


@recipe("tagger-gazetteers")
def _() -> Made:
    known = [
        Gazetteer("places", [("Aqua", "Clara"), ("Oslo",)]),
        Gazetteer("teams", [("the", "Hawks"), ("Harwick", "Rovers")]),
    ]
    X, y = sequences("ner", 40, 8)
    chosen = [i for i, labels in enumerate(y) if set(labels) != {"O"}]
    tagger = Tagger(template="ner", gazetteers=known, l2=0.1, prune=0.8, threads=1)
    tagger.fit([X[i] for i in chosen], [y[i] for i in chosen])
    row = [("The", "DT"), ("Hawks", "NNP"), ("beat", "VBD"), ("Aqua", "NNP"), ("Clara", "NNP"), (".", ".")]
    asked = {"X": [row], "y": [["O", "B-ORG", "O", "B-LOC", "I-LOC", "O"]], "given": [[None] * 4 + ["I-LOC", None]]}
    return tagger.to_bytes(), _known_labels({**asked, "file": "rows.txt", "text": _column_text([row])}, tagger)


def _features(rows: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Dicts of features of a sentence: strings, numbers, switches, and lists."""
    return [
        {"w": word.lower(), "title": word.istitle(), "length": len(word) / 8, "near": [rows[t - 1][1]] if t else []}
        for t, (word, _) in enumerate(rows)
    ]


def _attribute_line(token: dict[str, Any]) -> str:
    """Some of these features as a line of a CRFsuite file, which writes a colon within a name as \\:."""
    fields = ["O", f"w\\:{token['w']}", *(["title"] if token["title"] else []), f"length:{token['length']}"]
    return "\t".join(fields) + "\n"


def _by_dicts(**options: Any) -> Made:
    X, y = _simple()
    tagger = Tagger(threads=1, **options).fit([_features(x) for x in X], y)
    asked = _tagged()
    asked["X"] = [_features(x) for x in asked["X"]]
    lines = ["".join(_attribute_line(token) for token in x) for x in asked["X"]]
    asked |= {"file": "attributes.crfsuite", "text": "\n".join(lines)}
    return tagger.to_bytes(), _known_labels(asked, tagger)


@recipe("tagger-dicts")
def _() -> Made:
    return _by_dicts(l2=0.1)


@recipe("tagger-dicts-hashed")
def _() -> Made:
    return _by_dicts(l2=0.1, hash_bits=8)


@recipe("tagger-large-weights")
def _() -> Made:
    """Weights that float16 holds only divided by a power of two."""
    X, y = _simple(10)
    scaled = [[{row[1]: 1e5} for row in x] for x in X]
    tagger = Tagger(criterion="perceptron", precision="float16", threads=1).fit(scaled, y)
    asked = _tagged()
    asked["X"] = [[{row[1]: 1e-5} for row in x] for x in asked["X"]]
    del asked["text"]
    return tagger.to_bytes(), _known_labels(asked, tagger)


@recipe("tagger-checkpoint")
def _() -> Made:
    """What a training leaves that was stopped after three iterations: a usable model, and the optimizer's state."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.checkpoint"
        tagger = Tagger(template=WORDS_AND_TAGS, optimizer="lbfgs:memory=3", max_iter=3, threads=1)
        tagger.fit(*_simple(6), checkpoint=path, checkpoint_seconds=0)
        return path.read_bytes(), _known_labels(_tagged(), tagger)


for _name, _options in {
    "memm": {"criterion": "memm", "constraints": "bio"},
    "pseudolikelihood": {"criterion": "pseudolikelihood", "max_iter": 30, "n": 5},
    "pseudolikelihood-joint": {"criterion": "pseudolikelihood:joint", "max_iter": 10, "n": 5},
    "piecewise": {"criterion": "piecewise", "l2": 0.1},
    "nota-scaling": {"criterion": "nota:scaling", "l2": 0.1},
    "nota-local": {"criterion": "nota:decoding=local", "pair_features": True, "min_count": 2, "n": 10},
    "sub-labels": {"sub_labels": 2, "max_iter": 30, "seed": 5},
    "softmax-margin": {"criterion": "softmax-margin", "cost": "recall:3", "n": 5},
    "risk": {"criterion": "risk", "cost": {("B-NP", "O"): 4.0}, "max_iter": 10, "n": 5},
    "mira": {"criterion": "mira:k=3,C=0.1", "cost": "hamming:2", "max_iter": 5, "n": 5},
    "passive-aggressive": {"criterion": "passive-aggressive:variant=2", "max_iter": 5, "n": 5},
    "max-margin-adagrad": {"criterion": "max-margin", "optimizer": "adagrad:average", "max_iter": 5, "n": 5},
    "memm-second-order": {"criterion": "memm", "order": 2, "n": 10},
}.items():
    recipe(f"tagger-{_name}")(lambda options=_options: _chunker(**options))


@recipe("tagger-partial")
def _() -> Made:
    X, y = _simple()
    partial = [
        [None if (i + t) % 4 == 0 else {label, "O"} if (i + t) % 4 == 1 else label for t, label in enumerate(labels)]
        for i, labels in enumerate(y)
    ]
    tagger = Tagger(template=WORDS_AND_TAGS, max_iter=30, threads=1).fit(X, partial)
    return tagger.to_bytes(), _known_labels(_tagged(), tagger)


@recipe("tagger-early-stopping")
def _() -> Made:
    tagger = Tagger(template=WORDS_AND_TAGS, patience=2, metric="f1", optimizer="sgd:step=0.1", max_iter=6, threads=1)
    tagger.fit(*_simple(), *sequences("chunk", 6, 9, "dev"), sample_weight=[1.0, 0.5] * 4)
    return tagger.to_bytes(), _known_labels(_tagged(), tagger)


# densities


@recipe("tagger-hmm")
def _() -> Made:
    return _chunker(criterion="hmm", template=None, n=19, question=_tagged(density=True, nbest=2))


@recipe("tagger-hmm-second-order")
def _() -> Made:
    asked = _tagged(density=True)
    return _chunker(
        criterion="hmm:smoothing=0.5,transition_smoothing=0.1",
        order=2,
        constraints="bio",
        template=None,
        question=asked,
    )


@recipe("tagger-hmm-found-labels")
def _() -> Made:
    hmm = HMM(labels=3, smoothing=0.1, restarts=1, rounds=5, seed=2, threads=1).fit(words_of(_simple(19)[0]))
    asked = {**_of_words(_tagged()), "density": True, "estimator": "HMM"}
    return hmm.to_bytes(), _known_labels(asked, hmm)


@recipe("tagger-hmm-partial-sub-labels")
def _() -> Made:
    X, y = _simple(19)
    some = [labels if i % 2 else [None] * len(labels) for i, labels in enumerate(y)]
    tagger = Tagger(criterion="hmm:rounds=4", sub_labels=2, threads=1).fit(words_of(X), some)
    return tagger.to_bytes(), _known_labels({**_of_words(_tagged()), "density": True}, tagger)


for _name, _options in {
    "hmm": {},
    "exact": {"template": "U0:%x[0,0]\nU1:%x[0,1]\nB\n"},
    "input-only": {"criterion": "m-estimation:input_only", "constraints": "bio"},
    "locally-uniform": {"base": "locally-uniform"},
    "empirical": {"base": "empirical"},
    "second-order": {"order": 2, "base": "hmm:samples=500"},
    "newton": {"optimizer": "newton", "template": "U1:%x[0,1]\nB\n", "variance": 0.5},
}.items():
    recipe(f"tagger-m-estimation-{_name}")(
        lambda options=_options: _chunker(
            **{"criterion": "m-estimation", "variance": 1, "question": _tagged(density=True), **options}
        )
    )


def _over_own(base: Any) -> Made:
    X, y = [["time", "flies"], ["flies", "like", "time"], ["time"]], [["N", "V"], ["N", "V", "N"], ["N"]]
    tagger = Tagger(criterion="m-estimation", base=base, template="U:%x[0,0]\nB", variance=10, threads=1).fit(X, y)
    asked = [["time", "flies"], ["time", "like", "arrow"]]
    question = {"X": asked, "y": [["N", "V"], ["N", "V", "N"]], "given": [[None, "V"], [["N", "V"], None, None]]}
    return tagger.to_bytes(), {**question, "density": True, "file": "words.txt", "text": _column_text(asked)}


@recipe("tagger-own-base")
def _() -> Made:
    return _over_own(WordsByLabel())


@recipe("tagger-own-base-with-scores")
def _() -> Made:
    return _over_own(ScoredWordsByLabel())


# -- classifiers ---------------------------------------------------------------------------------------------------


def _of_reviews(labels: list[Any], **options: Any) -> Made:
    classifier = Classifier(**{"l2": 0.1, "threads": 1, **options}).fit(REVIEWS, labels)
    return classifier.to_bytes(), {"X": ["a dull and bad book", "very good", "Moving !", ""], "y": labels[:4]}


@recipe("classifier-text")
def _() -> Made:
    return _of_reviews(["+" if label == "+" else "-" for label in STARS])


@recipe("classifier-text-several-labels")
def _() -> Made:
    return _of_reviews(STARS, text="words:ngrams=2,presence", bias="penalised", bias_scale=2.0)


@recipe("classifier-text-characters")
def _() -> Made:
    return _of_reviews(STARS, criterion="max-margin", text="characters:ngrams=2,shortest=2", min_count=3)


@recipe("classifier-text-bool-labels")
def _() -> Made:
    return _of_reviews([label == "+" for label in STARS], text="tokens:lowercase=no", bias="none", l1=0.05)


def _of_numbers(labels: list[Any] | None = None, **options: Any) -> Made:
    X, y = clouds(45, 1, 4)
    labels = y.tolist() if labels is None else [labels[k] for k in y]
    classifier = Classifier(**{"l2": 0.5, "threads": 1, **options}).fit(X, labels)
    new, truth = clouds(6, 2, 4)
    return classifier.to_bytes(), {"X": new, "y": [labels[k] for k in truth]}


@recipe("classifier-numbers")
def _() -> Made:
    return _of_numbers(cost={(0, 1): 3.0, (2, 1): 0.5}, criterion="softmax-margin")


@recipe("classifier-one-versus-all")
def _() -> Made:
    return _of_numbers(multiclass="one-versus-all", class_weight={0: 1.0, 1: 2.0, 2: 0.5})


@recipe("classifier-least-squares")
def _() -> Made:
    return _of_numbers(["low", "middle", "high"], criterion="least-squares")


@recipe("classifier-dual-max-margin")
def _() -> Made:
    return _of_numbers([10.0, 20.0, 30.0], criterion="max-margin", tolerance=1e-4)


@recipe("classifier-dicts")
def _() -> Made:
    X, y = _simple(8)
    flat = [token for x in X for token in _features(x)]
    labels = [label for each in y for label in each]
    asked = _tagged()
    classifier = Classifier(criterion="perceptron", max_iter=4, min_count=2, threads=1).fit(flat, labels)
    return classifier.to_bytes(), {"X": _features(asked["X"][0]), "y": asked["y"][0]}


@recipe("classifier-template")
def _() -> Made:
    X, _ = sequences("pos", 12, 7)
    kinds = ["question" if x[-1][0] == "?" else "statement" for x in X]
    classifier = Classifier(template="U0:%x[0,0]\nU1:%Suffix[0,0,2]\n", l2=0.1, l1=0.01, threads=1).fit(X, kinds)
    asked = [[("Who",), ("came",), ("?",)], [("Nobody",), ("came",), (".",)]]
    return classifier.to_bytes(), {"X": asked, "y": ["question", "statement"], "examples": "sequences"}


@recipe("classifier-table")
def _() -> Made:
    return _on_table("classify", "train", options=("--label", "ill", "--l2", "0.1", "--threads", "1"))


@recipe("classifier-table-one-versus-all")
def _() -> Made:
    options = ("--label", "town", "--multiclass", "one-versus-all", "--category", "ill", "--raw-numbers")
    return _on_table("classify", "train", options=(*options, "--criterion", "cll", "--threads", "1"))


def _on_table(*command: str, options: tuple[str, ...], table: str = TABLE) -> Made:
    with tempfile.TemporaryDirectory() as folder:
        file, model = Path(folder) / "table.csv", Path(folder) / "table.model"
        file.write_text(table, encoding="utf-8")
        output_of(*command, file, "-o", model, *options, "--quiet")
        return model.read_bytes(), {"table": table}


@recipe("classifier-function")
def _() -> Made:
    X, y = _simple()
    flat, labels = [row[0] for x in X for row in x], [label for each in y for label in each]
    classifier = Classifier(features=shape_and_end, l2=0.1, max_iter=20, threads=1).fit(flat, labels)
    return classifier.to_bytes(), {"X": ["Oslo", "running", ".", "the"], "y": ["B-NP", "B-VP", "O", "B-NP"]}


@recipe("classifier-candidates")
def _() -> Made:
    X = [("bank", "of the river"), ("bank", "has my money"), ("spring", "after the winter"), ("spring", "clear water")]
    classifier = Classifier(feature_map=clues, candidates=meanings, l2=0.1, threads=1)
    classifier.fit(X, ["river", "money", "season", "water"])
    asked = [["bank", "the river"], ["spring", "clear and cold"]]
    return classifier.to_bytes(), {"X": asked, "y": ["river", "water"], "examples": "tuples"}


def _of_counts(**options: Any) -> Made:
    X, kind = counts(30, 3)
    classifier = Classifier(criterion="m-estimation:smoothing=0.5", variance=2, threads=1, **options).fit(X, kind)
    new, truth = counts(5, 4)
    return classifier.to_bytes(), {"X": new, "y": truth}


@recipe("classifier-m-estimation")
def _() -> Made:
    return _of_counts()


@recipe("classifier-own-base")
def _() -> Made:
    X, kind = counts(30, 3)
    classifier = Classifier(criterion="m-estimation", base=EvenBase(6, 2), variance=2, threads=1).fit(X, kind)
    new, truth = counts(5, 4)
    return classifier.to_bytes(), {"X": new, "y": truth}


# -- numbers, counts, components -----------------------------------------------------------------------------------


@recipe("ridge")
def _() -> Made:
    X, _ = clouds(20, 5, 3)
    return Ridge(l2=0.3).fit(X, X @ [1.0, -2.0, 0.5] + 1.0).to_bytes(), {"X": clouds(4, 6, 3)[0]}


@recipe("ridge-two-targets")
def _() -> Made:
    X, _ = clouds(20, 5, 3)
    ridge = Ridge(l2=0.3, bias="penalised", bias_scale=2.0).fit(X, X[:, :2] ** 2, sample_weight=[1.0, 2.0] * 10)
    return ridge.to_bytes(), {"X": clouds(4, 6, 3)[0]}


@recipe("least-squares")
def _() -> Made:
    X, _ = clouds(20, 5, 3)
    return LeastSquares(bias="none").fit(X, X[:, 0] - X[:, 2] ** 2).to_bytes(), {"X": clouds(4, 6, 3)[0]}


@recipe("naive-bayes")
def _() -> Made:
    X, kind = counts(30, 3)
    return NaiveBayes(smoothing=0.5).fit(X, kind).to_bytes(), {"X": counts(5, 4)[0]}


@recipe("naive-bayes-string-labels")
def _() -> Made:
    X, kind = counts(30, 3)
    labels = ["sport" if k else "food" for k in kind]
    return NaiveBayes().fit(X, labels, sample_weight=[1.0, 2.0, 0.5] * 10).to_bytes(), {"X": counts(5, 4)[0]}


for _shape, _options in {
    "known": {"variance": 1.5},
    "spherical": {"smoothing": 2.0},
    "diagonal": {"start": "random"},
    "tied": {},
    "full": {"smoothing": 3.0, "floor": 1e-3},
}.items():

    @recipe(f"mixture-{_shape}")
    def _(shape: str = _shape, options: dict[str, Any] = _options) -> Made:
        mixture = Mixture(3, covariance=shape, restarts=1, rounds=20, seed=1, **options).fit(clouds(45, 1, 2)[0])
        return mixture.to_bytes(), {"X": clouds(6, 2, 2)[0]}


@recipe("mixture-given-start")
def _() -> Made:
    X, _ = clouds(45, 1, 2)
    return Mixture(2, start=[[3.0, 0.0], [0.0, 3.0]], rounds=20).fit(X).to_bytes(), {"X": clouds(6, 2, 2)[0]}


@recipe("mixture-multinomial-known")
def _() -> Made:
    X, kind = counts(30, 3)
    known = [("food", "sport")[k] if i < 8 else None for i, k in enumerate(kind)]
    mixture = Mixture(2, components="multinomial", rounds=20, restarts=0).fit(X, known=known)
    return mixture.to_bytes(), {"X": counts(5, 4)[0]}


@recipe("mixture-of-words")
def _() -> Made:
    table = "text,kind\n" + "".join(f'"{text}",{"good" if i < 2 else ""}\n' for i, text in enumerate(REVIEWS))
    return _on_table("cluster", options=("-k", "2", "--text", "text", "--label", "kind", "--seed", "1"), table=table)


# -- trees ---------------------------------------------------------------------------------------------------------


def _of_trees(**options: Any) -> Made:
    parser = Parser(**{"annotation": "none", "horizontal": 1, "threads": 1, **options}).fit(TREEBANK)
    asked = ["she sees a dog with the cat .", "the cat with a hat sleeps", "Zorg blicked", "."]
    return parser.to_bytes(), {"X": asked, "trees": TREEBANK[2:5]}


@recipe("parser-english")
def _() -> Made:
    """The default grammar, whose notes are made for English."""
    asked = ["The strike is over .", "Who would rest ?", "Chop the rice finely ."]
    return Parser(threads=1).fit(trees(6, 6)).to_bytes(), {"X": asked, "trees": trees(2, 8, "dev")}


for _name, _options in {
    "pcfg": {},
    "pcfg-parent": {"annotation": None, "vertical": 2, "horizontal": None, "factor": "right"},
    "mecfg": {"criterion": "mecfg:iterations=15"},
    "nota": {"criterion": "nota:delta=2,after=3,iterations=10"},
    "nota-local": {"criterion": "nota:wrong=sample,rate=0.2,iterations=10,decoding=local", "seed": 3},
    "cll": {"criterion": "cll:l2=0.5,iterations=8,places=first+last"},
    "softmax-margin": {"criterion": "softmax-margin:iterations=5,cost=2,base=no", "factor": "left"},
    "perceptron": {"criterion": "perceptron:iterations=3,min_count=1"},
    "mira": {"criterion": "mira:iterations=3,k=2"},
    "max-margin": {"criterion": "max-margin:iterations=3"},
    "m-estimation": {"criterion": "m-estimation:samples=300,iterations=10"},
    "span-features": {"criterion": "mecfg:iterations=10", "span_features": length_of_span},
}.items():
    recipe(f"parser-{_name}")(lambda options=_options: _of_trees(**options))


@recipe("parser-marks")
def _() -> Made:
    """Trees whose labels carry notes and function tags of their own."""
    noted = [tree.replace("(NP ", "(NP^S-TMP ").replace("(VP ", "(VP^S ") for tree in TREEBANK]
    parser = Parser(marks="^-", function_tags=True, threads=1).fit(noted)
    return parser.to_bytes(), {"X": ["she sees a dog", "the hat ."], "trees": TREEBANK[:2]}


def _of_arcs(n: int = 12, **options: Any) -> Made:
    parser = DependencyParser(**{"threads": 1, "min_count": 2, **options}).fit(dependencies(n, 7))
    return parser.to_bytes(), {"X": _tagged()["X"], "conllu": conllu(2, 8, "dev")}


for _name, _options in {
    "mira": {"criterion": "mira:k=2", "max_iter": 3, "n": 3},
    "cll": {"criterion": "cll", "max_iter": 3, "relations": False, "l2": 0.5},
    "crossing": {"criterion": "softmax-margin", "cost": "hamming:2", "projective": False, "max_iter": 2, "n": 3},
    "several-roots": {"criterion": "perceptron", "single_root": False, "relations": False, "max_iter": 3},
    "generative": {"criterion": "generative", "min_count": 1, "n": 3},
    "generative-tags": {"criterion": "generative", "base": "head-outward:words=no", "min_count": 1, "relations": False},
    "m-estimation": {"criterion": "m-estimation", "base": "head-outward:samples=500", "relations": False, "n": 5},
    "all-features": {"features": "all", "min_count": 6, "max_iter": 2, "relations": False, "n": 8, "tags": "xpos"},
}.items():
    recipe(f"dependency-parser-{_name}")(lambda options=_options: _of_arcs(**options))
