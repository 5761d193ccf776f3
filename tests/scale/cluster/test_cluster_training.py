"""Training on a cluster: the same model as on one machine, to the last bit, whatever the cut and the workers."""

import gzip
import os
import signal
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger, read_columns
from loglinear.data import Columns
from loglinear.errors import ClusterError, DataError, OptionError
from loglinear.features import encoding
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.optimizers import objective as objectives
from loglinear.scale import DaskTagger
from loglinear.scale.cluster import corpus as corpora
from loglinear.scale.cluster import source, worker
from loglinear.scale.cluster.corpus import ClusterColumns
from loglinear.scale.cluster.engine import Local
from loglinear.scale.cluster.source import Piece, pieces_of
from loglinear.scale.encoded import encode
from loglinear.training.run import TrainingInterrupted

TEMPLATE = "U:%x[0,0]\nU:%x[-1,0]\nU:%x[0,0]/%x[1,0]\nU1:%x[0,1]\n*:%x[0,1]\nB\n"


@dataclass(frozen=True)
class Rows(Piece):
    """A piece of a corpus in memory."""

    rows: tuple
    reading: object = None

    @property
    def name(self):
        return "rows"

    def read(self):
        return Columns.from_rows(list(map(list, self.rows)), empty=True)


@pytest.fixture
def small(monkeypatch):
    """Shards and runs of a few tokens, so that there are many of them."""
    monkeypatch.setattr(objectives, "TOKENS_PER_SHARD", 40)
    monkeypatch.setattr(encoding, "BLOCK", 30)
    monkeypatch.setattr(corpora, "BLOCK", 30)


def sentences(n, seed=0, partial=False):
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        rows = []
        for t in range(int(rng.integers(1, 9))):
            word = int(rng.zipf(1.6)) % 60
            label = "E" if rng.random() < 0.1 else "ABCD"[(word * 7 + t) % 4]
            if partial and rng.random() < 0.2:
                label = ("*", "A|B")[int(rng.integers(2))]
            rows.append((f"w{word}", f"P{word % 5}", label))
        made.append(tuple(rows))
    return made


def written(folder, made, n_files=3):
    cuts = [len(made) * k // n_files for k in range(n_files + 1)]
    names = []
    for k in range(n_files):
        text = "\n\n".join("\n".join(" ".join(row) for row in s) for s in made[cuts[k] : cuts[k + 1]]) + "\n\n"
        path = folder / f"part{k}.txt"
        if k == 1:
            path = folder / "part1.txt.gz"
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        names.append(str(path))
    return names


def assert_same_model(one, other):
    """Features and their order, and every bit of the weights."""
    assert one.classes_ == other.classes_
    assert one.model_.weights.tobytes() == other.model_.weights.tobytes()
    stored = [tagger.model_.to_storage() for tagger in (one, other)]
    assert stored[0][0] == stored[1][0]
    for name, array in stored[0][1].items():
        np.testing.assert_array_equal(array, stored[1][1][name], err_msg=name)
    assert one.model_.encoder.strings == other.model_.encoder.strings


# -- numbering ---------------------------------------------------------------------------------------------------------

words = st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz"), st.sampled_from("NV"))


@settings(max_examples=40)
@given(
    made=st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=25),
    cuts=st.lists(st.integers(0, 25), max_size=5),
    shard=st.integers(2, 30),
    run=st.integers(1, 40),
    min_count=st.sampled_from([1, 2]),
)
def test_numbers_are_those_of_the_whole_for_any_cut(made, cuts, shard, run, min_count):
    """Values, attributes, features and their order, for any pieces, shards and runs."""
    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(objectives, "TOKENS_PER_SHARD", shard)
        patch.setattr(encoding, "BLOCK", run)
        patch.setattr(corpora, "BLOCK", run)
        bounds = sorted({0, len(made), *(min(cut, len(made)) for cut in cuts)})
        pieces = [Rows(tuple(map(tuple, made[a:b]))) for a, b in pairwise(bounds)]
        whole = Columns.from_rows(made)
        encoder = TemplateEncoder(TemplateSet.parse(TEMPLATE))
        encoded = encoder.fit(whole, min_count)
        known, remote = ClusterColumns.read(Local(2), pieces).fitted(
            TemplateEncoder(TemplateSet.parse(TEMPLATE)), min_count
        )
    assert known.values.strings == encoder.values.strings
    assert known.names() == encoder.names()
    codes = np.arange(whole.n_tokens, dtype=np.int32) % 5
    pointer = np.arange(whole.n_tokens + 1, dtype=np.int64)
    for here, there in ((encoded.state, remote.state), (encoded.edge, remote.edge)):
        expected = here.observed(encoder.n_attributes, pointer, codes, 5)
        found = there.observed(encoder.n_attributes, pointer, codes, 5)
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)


# -- weights -----------------------------------------------------------------------------------------------------------

CASES = {
    "cll": {},
    "owl-qn": {"l1": 0.5, "l2": 0.1},
    "order 2": {"order": 2},
    "partial": {"partial": True},
    "min_count, class_weight": {"min_count": 2, "class_weight": "balanced"},
    "buckets": {"hash_bits": 8},
    "pairs only": {"pair_features": "only"},
    "sub-labels": {"sub_labels": 2},
    "risk": {"criterion": "risk", "max_iter": 4},
    "f-measure": {"criterion": "f-measure", "max_iter": 4},
    "memm": {"criterion": "memm"},
    "seen pairs": {"constraints": "bio", "transitions": "seen"},
    "m-estimation": {"criterion": "m-estimation", "variance": 1.0},
    "hmm": {"criterion": "hmm", "template": None, "optimizer": None},
}


@pytest.mark.parametrize("case", [name for name in CASES if name != "seen pairs"])
@pytest.mark.parametrize("n_workers", [1, 3])
def test_the_weights_are_those_of_one_machine(case, n_workers, small):
    options = {"template": TemplateSet.parse(TEMPLATE), "optimizer": "lbfgs", "max_iter": 6, "precision": "float64"}
    options |= CASES[case]
    partial = options.pop("partial", False)
    if options["template"] is None or options.get("criterion") == "hmm":
        options = {"criterion": "hmm"}
    made = sentences(90, partial=partial)
    one = Tagger(**options).fit(Columns.from_rows(made), partial=partial)
    pieces = [Rows(tuple(made[k : k + 17])) for k in range(0, len(made), 17)]
    corpus = ClusterColumns.read(Local(n_workers), pieces)
    assert len(corpus.spans) > 2
    other = Tagger(**options).fit(corpus, partial=partial)
    assert_same_model(one, other)
    assert one.objective_ == other.objective_
    corpus.release()


def test_partial_labels_in_one_group_alone_have_all_in_double_precision(small):
    made = [*sentences(4, partial=True), *sentences(80, seed=1)]
    options = {"template": "words", "optimizer": "lbfgs", "max_iter": 6, "precision": "float64"}
    one = Tagger(**options).fit(Columns.from_rows(made), partial=True)
    corpus = ClusterColumns.read(Local(2), [Rows(tuple(made[:9])), Rows(tuple(made[9:]))])
    assert_same_model(one, Tagger(**options).fit(corpus, partial=True))


@pytest.mark.parametrize("n_workers", [2, 5])
def test_sample_weights_dev_data_and_starts(n_workers, small):
    made = sentences(90)
    whole, dev = Columns.from_rows(made), Columns.from_rows(sentences(20, seed=1))
    options = {"template": "words", "optimizer": "lbfgs", "max_iter": 12, "patience": 3, "precision": "float64"}
    weights = np.linspace(0.5, 2.0, len(made))
    init = Tagger(template="words", criterion="perceptron", max_iter=2).fit(whole)
    one = Tagger(**options).fit(whole, X_dev=dev, sample_weight=weights, init=init)
    corpus = ClusterColumns.read(Local(n_workers), [Rows(tuple(made[:31])), Rows(tuple(made[31:]))])
    other = Tagger(**options).fit(corpus, X_dev=dev, sample_weight=weights, init=init)
    assert_same_model(one, other)
    assert (one.best_iteration_, one.dev_score_) == (other.best_iteration_, other.dev_score_)


def test_the_driver_goes_on_on_another_cluster(small, tmp_path):
    made = sentences(90)
    pieces = [Rows(tuple(made[:50])), Rows(tuple(made[50:]))]
    options = {"template": "words", "optimizer": "lbfgs", "max_iter": 12, "precision": "float64"}
    one = Tagger(**options).fit(ClusterColumns.read(Local(1), pieces))

    def interrupt(step):
        if step.iteration == 4:
            os.kill(os.getpid(), signal.SIGINT)

    kept = {"checkpoint": tmp_path / "c.model"}
    with pytest.raises(TrainingInterrupted):
        Tagger(**options).fit(ClusterColumns.read(Local(2), pieces), **kept, observe=interrupt)
    seen = []
    corpus = ClusterColumns.read(Local(5), [Rows(tuple(made[:7])), Rows(tuple(made[7:]))])
    other = Tagger(**options).fit(corpus, **kept, resume=True, observe=seen.append)
    assert seen[0].iteration == 5
    assert_same_model(one, other)


# -- sources -----------------------------------------------------------------------------------------------------------


def test_a_large_file_is_read_in_chunks_that_are_the_whole(tmp_path, monkeypatch, small):
    made = sentences(60)
    (path,) = written(tmp_path, made, 1)
    monkeypatch.setattr(source, "CHUNK", 100)
    pieces = pieces_of(path)
    assert len(pieces) > 5
    assert [row for piece in pieces for row in piece.columns().rows()] == [list(s) for s in made]
    text = (tmp_path / "part0.txt").read_text()
    line = text.count("\n", 0, text.rfind("w")) + 1
    (tmp_path / "part0.txt").write_text(text.rstrip("\n") + " more\n\n")
    with pytest.raises(DataError, match=rf"part0.txt:{line}: "):
        ClusterColumns.read(Local(2), pieces_of(path))


def test_places_of_errors_are_those_of_the_file(tmp_path, monkeypatch, small):
    """An error about labels, found when all parts are known, names the line in the middle of a large file."""
    made = [*sentences(40), (("w1", "P1", "B-X"), ("w2", "P2", "O"), ("w2", "P2", "I-X")), *sentences(9)]
    made = [tuple((a, b, label if "-" in label else "O") for a, b, label in s) for s in made]
    (path,) = written(tmp_path, made, 1)
    monkeypatch.setattr(source, "CHUNK", 100)
    tagger = Tagger(template="words", constraints="bio", optimizer="lbfgs")
    with pytest.raises(DataError) as expected:
        tagger.fit(read_columns(path))
    with pytest.raises(DataError) as found:
        tagger.fit(ClusterColumns.read(Local(2), pieces_of(path)))
    assert str(found.value) == str(expected.value)


def test_globs_urls_bags_and_frames_give_the_same(tmp_path, small):
    fsspec = pytest.importorskip("fsspec")
    bag = pytest.importorskip("dask.bag")
    made = sentences(50)
    written(tmp_path, made)
    options = {"template": "words", "max_iter": 5, "precision": "float64", "optimizer": "lbfgs"}
    one = Tagger(**options).fit(Columns.from_rows(made))
    memory = fsspec.filesystem("memory")
    for path in tmp_path.iterdir():
        memory.pipe(f"/corpus/{path.name}", path.read_bytes())
    pairs = [([row[:2] for row in s], [row[2] for row in s]) for s in made]
    sources = {
        "glob": str(tmp_path / "part*"),
        "folder": tmp_path,
        "url": "memory://corpus/part*",
        "bag of rows": bag.from_sequence(list(map(list, made)), npartitions=3),
        "bag of pairs": bag.from_sequence(pairs, npartitions=2),
    }
    for name, given_source in sources.items():
        tagger = DaskTagger(client=Local(2), **options).fit(given_source)
        assert tagger.to_local().model_.weights.tobytes() == one.model_.weights.tobytes(), name
        assert tagger.report_.passes >= 5


def test_encoded_folders(tmp_path, small, monkeypatch):
    monkeypatch.setattr(source, "SENTENCES", 7)
    corpus = Columns.from_rows(sentences(50))
    encode(corpus, tmp_path / "enc", {"template": "words"})
    options = {"template": "words", "max_iter": 5, "precision": "float64", "optimizer": "lbfgs"}
    tagger = DaskTagger(client=Local(2), **options).fit(tmp_path / "enc")
    assert tagger.model_.weights.tobytes() == Tagger(**options).fit(corpus).model_.weights.tobytes()
    assert tagger.report_.pieces == 8
    with pytest.raises(OptionError, match="an encoded folder is a corpus by itself"):
        DaskTagger(client=Local(2), **options).fit([tmp_path / "enc", tmp_path / "more.txt"])


@pytest.mark.parametrize("rows", ["token", "sentence"])
def test_data_frames(rows, small):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    import dask

    made = sentences(40)
    options = {"template": "words", "max_iter": 5, "precision": "float64", "optimizer": "lbfgs"}
    one = Tagger(**options).fit(Columns.from_rows(made))
    how = {"tokens": ["word", "pos"], "labels": "tag"}
    if rows == "token":
        table = [(s, *row) for s, sentence in enumerate(made) for row in sentence]
        frame, how = pandas.DataFrame(table, columns=["s", "word", "pos", "tag"]), {**how, "sentence": "s"}
        parts = dd.from_pandas(frame.set_index("s", drop=False), npartitions=3)  # sentences are not cut
    else:
        table = [tuple(map(list, zip(*sentence, strict=True))) for sentence in made]
        with dask.config.set({"dataframe.convert-string": False}):
            parts = dd.from_pandas(pandas.DataFrame(table, columns=["word", "pos", "tag"]), npartitions=3)
    tagger = DaskTagger(client=Local(2), **options).fit(parts, **how)
    assert tagger.model_.weights.tobytes() == one.model_.weights.tobytes()
    with pytest.raises(OptionError, match="no column 'words'"):
        DaskTagger(client=Local(2), **options).fit(parts, tokens="words", labels="tag")


# -- in rounds ---------------------------------------------------------------------------------------------------------


ROUNDS = {
    "dual": {"max_iter": 20},
    "dual with costs": {"criterion": "softmax-margin", "max_iter": 20},
    "perceptron": {"criterion": "perceptron", "max_iter": 5},
    "mira of order 2": {"criterion": "mira:k=2", "order": 2, "pair_features": True, "max_iter": 3},
}


def in_rounds(kind, cluster, source, **fit):
    return DaskTagger(client=cluster, template="words", precision="float64", **ROUNDS[kind]).fit(source, **fit)


@pytest.mark.parametrize("kind", ROUNDS)
def test_rounds_give_the_same_for_any_number_of_workers(kind, tmp_path, small):
    written(tmp_path, sentences(120))
    source = str(tmp_path / "part*")
    one, *others = (in_rounds(kind, Local(n), source) for n in (1, 2, 3, 5))
    assert one.report_.groups > 2 and one.report_.rounds > 1
    for other in others:
        assert_same_model(one.to_local(), other.to_local())
        assert other.message_ == one.message_ and other.objective_ == one.objective_


def test_rounds_end_at_the_minimum(tmp_path, small):
    written(tmp_path, sentences(120))
    whole = Tagger(template="words", optimizer="lbfgs", tolerance=1e-9).fit(Columns.from_rows(sentences(120)))
    found = DaskTagger(client=Local(2), template="words", tolerance=1e-7).fit(str(tmp_path / "part*"))
    assert "dual ascent" in found.message_
    assert found.objective_ == pytest.approx(whole.objective_, rel=1e-3)


@pytest.mark.parametrize("kind", ROUNDS)
def test_rounds_are_resumed_on_another_size_to_the_same_weights(kind, tmp_path, small):
    written(tmp_path, sentences(120))
    source, checkpoint = str(tmp_path / "part*"), tmp_path / "x.checkpoint"
    whole = in_rounds(kind, Local(3), source)

    def interrupt(step):
        if step.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        in_rounds(kind, Local(2), source, checkpoint=checkpoint, observe=interrupt)
    again = in_rounds(kind, Local(1), source, checkpoint=checkpoint, resume=True)
    assert_same_model(whole.to_local(), again.to_local())


def test_an_l1_penalty_leaves_rounds_to_owlqn_with_the_weights_of_one_machine(tmp_path, small):
    written(tmp_path, sentences(60))
    options = {"template": "words", "l1": 0.3, "max_iter": 6, "precision": "float64"}
    one = Tagger(**options, optimizer="lbfgs").fit(Columns.from_rows(sentences(60)))
    found = DaskTagger(client=Local(2), **options).fit(str(tmp_path / "part*"))
    assert found.model_.weights.tobytes() == one.model_.weights.tobytes() and found.report_.rounds == 0


# -- what cannot be used -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer='sgd' goes over sentences one by one, .*; use dual or lbfgs"),
        ({"criterion": "memm", "optimizer": "dual"}, "optimizer='dual': it is for cll and softmax-margin; use lbfgs"),
        ({"optimizer": "dual", "l2": 0.0}, "it needs an L2 penalty"),
        ({"optimizer": "dual:prune=1e-4"}, "prune=0.0001 is for one machine"),
        ({"structure": "segments"}, "structure='segments' cannot go onto a cluster yet"),
        ({"states": "probable:0.2"}, "cannot go onto a cluster yet"),
        ({"min_freq": 2}, "min_freq=2"),
    ],
)
def test_what_cannot_go_onto_a_cluster_is_a_sentence(options, message):
    with pytest.raises(OptionError, match=message):
        Tagger(template="words", **options).fit(ClusterColumns.read(Local(1), [Rows(tuple(sentences(5)))]))


def test_bad_parts_name_themselves(tmp_path):
    names = written(tmp_path, sentences(30))

    def fails(match):
        with pytest.raises(DataError, match=match):
            ClusterColumns.read(Local(2), pieces_of([*names[:2], str(tmp_path / "bad.txt.gz"), names[2]]))

    bad = tmp_path / "bad.txt.gz"
    bad.write_bytes((tmp_path / "part1.txt.gz").read_bytes()[:-30])
    fails(r"bad.txt.gz: damaged gzip data")
    bad.write_bytes(b"a b c\nd e\n\n")
    fails(r"bad.txt.gz:2: ")
    bad.write_bytes(b"a b\nd e\n\n")
    fails(r"bad.txt.gz: it has 2 columns, but .*part0.txt has 3")
    bad.write_bytes(b"")
    fails("bad.txt.gz: the file holds no tokens")
    with pytest.raises(DataError, match="there is no sequence to train on"):
        ClusterColumns.read(Local(2), [Rows(()), Rows(())])
    with pytest.raises(DataError, match="no file matches"):
        pieces_of(str(tmp_path / "none*"))


def test_a_file_that_changes_before_it_is_read_again_is_named(tmp_path, small):
    """A worker that takes over a group reads it again; other data would be another model."""
    (path,) = written(tmp_path, sentences(60), 1)
    corpus = ClusterColumns.read(Local(1), pieces_of(path))

    def change(step):
        if step.iteration == 2:
            written(tmp_path, [*sentences(59), (("other", "P1", "A"),) * len(sentences(60)[59])], 1)
            for span in corpus.spans:
                worker.forget(span.key)

    with pytest.raises(DataError, match=r"part0.txt.*: it has changed since training began"):
        Tagger(template="words", optimizer="lbfgs").fit(corpus, observe=change)


def test_a_full_disk_on_a_worker_is_a_sentence(monkeypatch):
    def full(*given, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Rows, "read", full)
    with pytest.raises(ClusterError, match=r"rows: .*No space left on device"):
        ClusterColumns.read(Local(2), [Rows(())])


# -- processes ---------------------------------------------------------------------------------------------------------

OPTIONS = {"template": "words", "max_iter": 8, "precision": "float64", "optimizer": "lbfgs"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return written(tmp_path_factory.mktemp("corpus"), sentences(4000, seed=4))


@pytest.fixture(scope="module")
def expected(files):
    whole = Columns.concatenated([read_columns(path) for path in files], "files")
    return Tagger(**OPTIONS).fit(whole)


def test_two_processes_give_the_weights_of_one(dask, files, expected):
    told = []
    tagger = DaskTagger(client=dask, **OPTIONS).fit(files, say=told.append)
    assert_same_model(expected, tagger.to_local())
    assert tagger.report_.groups == 4 and "a pass takes" in told[0]
    assert tagger.predict([["w1", "w2"]]) == expected.predict([["w1", "w2"]])


@pytest.mark.slow
@pytest.mark.parametrize("iteration", [1, 3, 6])
def test_a_killed_worker_changes_nothing(dask, files, expected, iteration):
    def kill(step):
        if step.iteration == iteration:
            os.kill(min(dask.client.run(os.getpid).values()), signal.SIGKILL)

    tagger = DaskTagger(client=dask, **OPTIONS).fit(files, observe=kill)
    assert_same_model(expected, tagger.to_local())
    assert tagger.report_.repairs > 0


@pytest.mark.slow
def test_workers_that_come_and_go_change_nothing(loopback, files, expected):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):

        def change(step):
            if step.iteration in (2, 5):
                local.scale(3 if step.iteration == 2 else 1)
                client.wait_for_workers(3 if step.iteration == 2 else 1, timeout=30)

        tagger = DaskTagger(**OPTIONS).fit(files, observe=change)  # the current client
        assert_same_model(expected, tagger.to_local())
        assert client.status == "running"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dual", "perceptron"])
def test_a_worker_killed_between_rounds_changes_nothing(dask, files, kind):
    alone = in_rounds(kind, Local(2), files)

    def kill(step):
        if step.iteration == 3:
            os.kill(min(dask.client.run(os.getpid).values()), signal.SIGKILL)

    tagger = in_rounds(kind, dask, files, observe=kill)
    assert_same_model(alone.to_local(), tagger.to_local())
    assert tagger.report_.repairs > 0
