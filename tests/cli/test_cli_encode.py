"""``loglinear encode``, and verbs that are given what it wrote."""

import hashlib

import pytest

from loglinear import Tagger


@pytest.fixture
def encoded(files, run):
    done = run("encode", files / "train.txt", "-o", files / "enc", "--template", "chunking", "--min-count", "2", "-q")
    assert (done.status, done.out, done.err) == (0, "", "")
    return files / "enc"


def bits(path):
    return hashlib.sha256(Tagger.load(path).model_.weights.tobytes()).hexdigest()


def test_train_takes_the_folder_with_its_options(files, run, encoded):
    options = ("--max-iter", "3", "-q")
    assert run("train", encoded, "-o", files / "a.model", *options).status == 0
    assert run("train", encoded, "-o", files / "b.model", "--memory", "8GB", *options).status == 0
    told = ("--template", "chunking", "--min-count", "2", "--memory", "1.5 GB", "--out-of-core")
    assert run("train", files / "train.txt", "-o", files / "c.model", *told, *options).status == 0
    assert bits(files / "a.model") == bits(files / "b.model") == bits(files / "c.model")
    assert run("train", encoded, "-o", files / "d.model", "--min-count", "1", *options).status == 0
    assert bits(files / "d.model") != bits(files / "a.model")


def test_a_criterion_that_counts_takes_the_columns_alone(files, run, encoded):
    assert run("train", encoded, "-o", files / "a.model", "--criterion", "hmm", "-q").err == ""
    assert run("train", files / "train.txt", "-o", files / "b.model", "--criterion", "hmm", "-q").err == ""
    first, second = (Tagger.load(files / name).model_.base.model for name in ("a.model", "b.model"))
    assert first.emissions[0].tolist() == second.emissions[0].tolist()


def test_standard_input_and_ready_made_features(files, run):
    text = (files / "train.txt").read_text()
    assert run("encode", "-", "-o", files / "enc", "--template", "words", "-q", stdin=text).err == ""
    (files / "a.crfsuite").write_text("X\tw=a\nY\tw=b\n\n" * 5)
    assert run("encode", files / "a.crfsuite", "-o", files / "attributes", "--edge", "w", "-q").err == ""
    for source, name in ((files / "attributes", "a"), (files / "a.crfsuite", "b")):
        given = () if name == "a" else ("--edge", "w")
        assert run("train", source, "-o", files / name, *given, "-q", "--max-iter", "3").err == ""
    assert bits(files / "a") == bits(files / "b")


@pytest.mark.parametrize(
    "verb",
    [
        ("eval", "ENC", "--model", "MODEL"),
        ("train", "TRAIN", "--dev", "ENC", "--template", "words", "-o", "OUT", "--max-iter", "2"),
        ("train", "ENC", "--classifier", "LogisticRegression:max_iter=5", "-o", "OUT"),
        ("train", "ENC", "--dev-split", "0.4", "-o", "OUT", "--max-iter", "2"),
        ("tune", "ENC", "--dev", "TRAIN", "--grid", "l2=0.1,1", "--max-iter", "2"),
        (
            "compare",
            "ENC",
            "--dev",
            "TRAIN",
            "--test",
            "TRAIN",
            "--criteria",
            "cll",
            "--grid",
            "l2=1",
            "--max-iter",
            "2",
        ),
        ("path", "ENC", "--test", "TRAIN", "--grid", "1,0.1", "--max-iter", "2"),
        ("update", "MODEL", "ENC", "-o", "OUT"),
    ],
    ids=lambda verb: " ".join(verb[:2]),
)
def test_verbs_take_the_folder_in_the_place_of_a_file(files, run, encoded, model, verb):
    names = {"ENC": encoded, "MODEL": model, "TRAIN": files / "train.txt", "OUT": files / "out.model"}
    done = run(*(names.get(each, each) for each in verb))
    assert done.status == 0, done.err


def test_an_encoded_corpus_is_scored_as_its_source(files, run, encoded, model):
    assert run("eval", encoded, "--model", model).out == run("eval", files / "train.txt", "--model", model).out


REFUSED = [
    (("tag", "MODEL", "ENC"), "this is an encoded corpus, without the text; name the files it was made of"),
    (("encode", "ENC", "-o", "OUT"), "this is an encoded corpus already; train takes it as it is"),
    (("train", "ENC", "-o", "ENC/manifest.json"), "would overwrite the input"),
    (("train", "ENC", "-o", "ENC/corpus"), "would overwrite the input"),
    (("encode", "TRAIN", "-o", "OUT", "--edge", "w"), "--edge names ready-made features"),
    (("encode", "TRAIN", "-o", "TRAIN"), "is not a folder"),
    (("train", "ENC", "-o", "OUT", "--memory", "a lot"), "--memory=a lot must be a number of bytes, such as 500M"),
    (("train", "ENC", "-o", "OUT", "--memory", "1M"), "1 MB of memory are too little: the program alone takes"),
    (("train", "ENC", "-o", "OUT", "--scratch", "TRAIN"), "is not a folder"),
    (("train", "ENC", "-o", "OUT", "--scratch", "SCRATCH"), "--scratch goes with --memory or --out-of-core"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "said"), REFUSED)
def test_what_makes_no_sense_is_refused(files, run, encoded, model, verb, said):
    names = {"ENC": encoded, "MODEL": model, "TRAIN": files / "train.txt", "OUT": files / "out", "SCRATCH": files}
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    given = [names.get(each, str(encoded / each[4:]) if each.startswith("ENC/") else each) for each in verb]
    done = run(*given)
    assert done.status == 2 and said in done.err, done.err
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before
