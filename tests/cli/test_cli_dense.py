"""Word vectors and chosen features of label pairs on the command line."""

import json

WORDS = [["Rome", "fell"], ["rome", "rose", "xyz"]] * 4
TAGS = [["LOC", "O"], ["LOC", "O", "O"]] * 4


def test_vectors_are_kept_in_the_model(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("rome 1 0.5\nfell -1 0\nrose -1 0.25\n")
    lines = ["\n".join(map(" ".join, zip(w, t, strict=True))) for w, t in zip(WORDS, TAGS, strict=True)]
    (tmp_path / "data").write_text("\n\n".join(lines) + "\n")
    options = ("-o", "m", "--template", "words", "--vectors", "v.txt", "--no-standardise", "--max-iter", "5")
    trained = run("train", "data", *options)
    assert trained.status == 0, trained.err
    (tmp_path / "v.txt").unlink()
    assert run("eval", "data", "--model", "m").status == 0
    facts = json.loads(run("inspect", "m", "--json").out)
    assert facts["features"]["dense"] == 4
    assert {row["attribute"] for row in facts["dense"]} == {"vector:0", "vector:1"}
    assert "vector:0" in run("inspect", "m").out
    (tmp_path / "v.txt").write_text("rome 1 0.5\n")
    refused = run("train", "data", *options[:-2], "--structure", "segments")
    assert refused.status
    assert "segments have no dense features" in refused.err


def test_features_are_joined_with_label_pairs_by_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.crfsuite").write_text("A\tw=x\tp=1\nB\tw=y\tp=1\n\n" * 3)
    trained = run("train", "d.crfsuite", "-o", "m", "--edge", "w", "--max-iter", "5")
    assert trained.status == 0, trained.err
    facts = json.loads(run("inspect", "m", "--json").out)
    assert {row["attribute"] for row in facts["edges"]} == {"w=y"}
