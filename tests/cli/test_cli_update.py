"""Models that grow from the command line: ``update``, and ``train --init MODEL --grow``."""

from loglinear import Tagger, read_columns


def words(place, *sentences):
    place.write_text("\n".join("".join(f"{pair.replace('/', ' ')}\n" for pair in s.split()) for s in sentences))
    return place


def test_updates_go_on_as_calls_do(run, tmp_path):
    first = words(tmp_path / "1.txt", "the/D dog/N", "a/D cat/N")
    second = words(tmp_path / "2.txt", "the/D bird/N sings/V", "a/D dog/N barks/V")
    assert run("train", first, "-o", tmp_path / "m0", "--criterion", "perceptron", "--template", "words").status == 0
    done = run("update", tmp_path / "m0", second, "-o", tmp_path / "m1")
    assert done.status == 0 and "3 labels, 1 of them new" in done.err and "after 1 call of partial_fit" in done.err
    done = run("update", tmp_path / "m1", first, "-o", tmp_path / "m2", "--passes", 2, "--label", "X")
    assert done.status == 0 and "after 3 calls" in done.err
    tagger = Tagger.load(tmp_path / "m0")
    for corpus, classes in ((second, None), (first, ["X"]), (first, ["X"])):
        tagger.partial_fit(read_columns(corpus), classes=classes)
    assert Tagger.load(tmp_path / "m2").state_weights_ == tagger.state_weights_
    assert tagger.classes_ == ["D", "N", "V", "X"]
    assert run("tag", tmp_path / "m2", first).status == 0


def test_a_warm_start_that_grows(run, tmp_path):
    first = words(tmp_path / "1.txt", "the/D dog/N", "a/D cat/N")
    second = words(tmp_path / "2.txt", "birds/N sing/V", "dogs/N bark/V")
    common = ("--template", "words", "--l2", "0.1")
    assert run("train", first, "-o", tmp_path / "m", *common).status == 0
    assert run("train", second, "-o", tmp_path / "kept", "--init", tmp_path / "m", "--grow", *common).status == 0
    assert run("train", second, "-o", tmp_path / "not", "--init", tmp_path / "m", *common).status == 0
    assert Tagger.load(tmp_path / "kept").classes_ == ["D", "N", "V"]
    assert Tagger.load(tmp_path / "not").classes_ == ["N", "V"]
    alone = run("train", second, "-o", tmp_path / "x", "--grow", *common)
    assert alone.status == 2 and "grow=True needs a model to start from" in alone.err


def test_what_cannot_be_updated(run, tmp_path):
    data = words(tmp_path / "1.txt", "the/D dog/N", "a/D cat/N")
    assert run("train", data, "-o", tmp_path / "m", "--template", "words", "--optimizer", "lbfgs").status == 0
    refused = run("update", tmp_path / "m", data, "-o", tmp_path / "n")
    assert refused.status == 2 and "needs all data at once" in refused.err and not (tmp_path / "n").exists()
    assert run("update", tmp_path / "m", data, "-o", tmp_path / "n", "--optimizer", "sgd:step=0.1").status == 0


def test_weights_of_labels_and_frequent_features(run, tmp_path):
    data = words(tmp_path / "1.txt", "the/D dog/N", "the/D cat/N")
    more = ("--class-weight", "D=2,N=0.5", "--min-freq", "2", "--template", "words")
    assert run("train", data, "-o", tmp_path / "m", *more).status == 0
    tagger = Tagger.load(tmp_path / "m")
    assert tagger.class_weight == "D=2,N=0.5" and tagger.min_freq == 2.0
    refused = run("train", data, "-o", tmp_path / "n", "--class-weight", "often", "--template", "words")
    assert refused.status == 2 and "is not LABEL=WEIGHT" in refused.err
