"""Components of spaCy: training, partial annotation, pipelines on disk and in processes, and what is refused.

Skipped where spaCy is not installed (``pip install 'loglinear[spacy]'``); ``test_with_spacy.py`` beside it installs it.
"""

import json

import numpy as np
import pytest

spacy = pytest.importorskip("spacy", reason="needs spaCy: pip install 'loglinear[spacy]'")

from spacy.tokens import Doc, Span, SpanGroup  # noqa: E402
from spacy.training import Example  # noqa: E402

from loglinear import Tagger  # noqa: E402
from problems.guides import run_guide  # noqa: E402

PEOPLE, PLACES = ["Ann", "Bob", "Eve Ross"], ["Rome", "New York", "Oslo"]


def sentences():
    for person in PEOPLE:
        for place in PLACES:
            text = f"{person} went to {place} today ."
            start = text.index(place)
            yield text, [(0, len(person), "PER"), (start, start + len(place), "LOC")]
            yield f"in {place} it rains .", [(3, 3 + len(place), "LOC")]


def ner_examples(nlp, **more):
    return [Example.from_dict(nlp.make_doc(t), {"entities": e, **more}) for t, e in sentences()]


def tag_examples(nlp, attribute="tags"):
    made = []
    for text, _ in sentences():
        doc = nlp.make_doc(text)
        tags = ["PROPN" if t.text[0].isupper() else "VERB" if t.text in ("went", "rains") else "X" for t in doc]
        made.append(Example.from_dict(doc, {attribute: tags}))
    return made


@pytest.fixture(scope="module")
def ner():
    nlp = spacy.blank("en")
    nlp.add_pipe("loglinear_ner", config={"options": {"l2": 0.1, "threads": 1}})
    nlp.initialize(lambda: ner_examples(nlp))
    return nlp


def entities(doc):
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_entities_with_exact_probabilities(ner):
    doc = ner("Bob went to New York today .")
    assert entities(doc) == [("Bob", "PER"), ("New York", "LOC")]
    assert [(s.text, s.label_) for s in doc.spans["loglinear"]] == entities(doc)
    tagger = ner.get_pipe("loglinear_ner").tagger
    wanted = [p for *_, p in tagger.predict_spans([[(token.text,) for token in doc]])[0]]
    np.testing.assert_array_equal(doc.spans["loglinear"].attrs["scores"], wanted)
    assert ner.get_pipe("loglinear_ner").labels == ("LOC", "PER")
    assert ner.evaluate(ner_examples(ner))["ents_f"] == 1.0


def test_it_learns_what_a_tagger_of_the_same_rows_learns(ner):
    X = [[(token.text,) for token in ner.make_doc(text)] for text, _ in sentences()]
    y = [[t.replace("L-", "I-").replace("U-", "B-") for t in e.get_aligned_ner()] for e in ner_examples(ner)]
    plain = Tagger(template="ner", constraints="bio", l2=0.1, threads=1).fit(X, y)
    assert plain.state_weights_ == ner.get_pipe("loglinear_ner").tagger.state_weights_


def test_pipelines_on_disk_in_bytes_and_in_processes(ner, tmp_path):
    texts = [text for text, _ in sentences()] + ["", " \n ", "Rome"]
    wanted = [entities(doc) for doc in ner.pipe(texts)]
    assert wanted[-3:] == [[], [], [("Rome", "LOC")]]
    assert [entities(ner(text)) for text in texts] == wanted
    assert [entities(doc) for doc in ner.pipe(texts, batch_size=2)] == wanted
    assert [entities(doc) for doc in ner.pipe(texts, n_process=2, batch_size=5)] == wanted
    ner.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert [entities(doc) for doc in loaded.pipe(texts)] == wanted
    assert sorted(p.name for p in (tmp_path / "pipeline" / "loglinear_ner").iterdir()) == ["model", "settings.json"]
    again = spacy.blank("en")
    again.add_pipe("loglinear_ner", config={"options": {"l2": 0.1, "threads": 1}})
    assert [entities(doc) for doc in again.from_bytes(ner.to_bytes()).pipe(texts)] == wanted
    ner.to_disk(tmp_path / "pipeline")  # once more, over the same
    spacy.load(tmp_path / "pipeline", exclude=["loglinear_ner"])


@pytest.mark.parametrize("scheme", ["bio", "bilou"])
def test_what_is_not_annotated_is_unknown(scheme):
    nlp = spacy.blank("en")
    component = nlp.add_pipe("loglinear_ner", config={"scheme": scheme})
    words = ["Ann", "saw", "New", "York", "."]
    whole, partly = Doc(nlp.vocab, words), Doc(nlp.vocab, words)
    whole.set_ents([Span(whole, 0, 1, "PER"), Span(whole, 2, 4, "LOC")])
    partly.set_ents([Span(partly, 2, 4, "LOC")], outside=[Span(partly, 1, 2)], default="missing")
    made = [Example(Doc(nlp.vocab, words), doc) for doc in (whole, partly, Doc(nlp.vocab, words))]
    two = ["B-LOC", "I-LOC"] if scheme == "bio" else ["B-LOC", "L-LOC"]
    one = "B-PER" if scheme == "bio" else "U-PER"
    assert component._gold(made[0]) == [one, "O", *two, "O"]
    assert component._gold(made[1]) == [None, "O", *two, None]
    assert component._gold(made[2]) == [None] * 5
    nlp.initialize(lambda: made)
    assert entities(nlp("Ann saw New York .")) == [("Ann", "PER"), ("New York", "LOC")]


def test_entities_set_before_stay(ner):
    nlp = spacy.blank("en")
    rules = nlp.add_pipe("entity_ruler")
    rules.add_patterns([{"label": "PER", "pattern": "Rome"}, {"label": "DATE", "pattern": "today"}])
    nlp.add_pipe("loglinear_ner", source=ner)
    doc = nlp("Bob went to Rome today .")
    assert entities(doc) == [("Bob", "PER"), ("Rome", "PER"), ("today", "DATE")]
    assert len(doc.spans["loglinear"].attrs["scores"]) == 2


@pytest.mark.parametrize(("attribute", "key"), [("tag", "tags"), ("pos", "pos")])
def test_a_tagger(attribute, key, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("loglinear_tagger", config={"attribute": attribute, "confidence": True, "options": {"threads": 1}})
    nlp.initialize(lambda: tag_examples(nlp, key))
    doc = nlp("Oslo rains .")
    assert [getattr(token, f"{attribute}_") for token in doc] == ["PROPN", "VERB", "X"]
    sure = doc.user_data["loglinear_tagger.confidence"]
    marginals = nlp.get_pipe("loglinear_tagger").tagger.predict_marginals([[(t.text,) for t in doc]])[0]
    np.testing.assert_allclose(sure, [m[getattr(t, f"{attribute}_")] for m, t in zip(marginals, doc, strict=True)])
    assert nlp.evaluate(tag_examples(nlp, key))[f"{attribute}_acc"] == 1.0
    nlp.to_disk(tmp_path / "t")
    assert getattr(spacy.load(tmp_path / "t")("Oslo rains .")[0], f"{attribute}_") == "PROPN"


def test_entities_that_look_at_tags():
    nlp = spacy.blank("en")
    nlp.add_pipe("loglinear_tagger")
    nlp.add_pipe("loglinear_ner", config={"columns": ["text", "tag", "shape"], "template": "U0:%x[0,1]\nU1:%x[0,2]\nB"})
    tags = [[t.reference[i].tag_ for i in range(len(t.reference))] for t in tag_examples(nlp)]
    made = [
        Example.from_dict(nlp.make_doc(text), {"entities": ents, "tags": own})
        for (text, ents), own in zip(sentences(), tags, strict=True)
    ]
    nlp.initialize(lambda: made)
    names = nlp.get_pipe("loglinear_ner").tagger.model_.encoder.names()
    assert {"U0:PROPN", "U1:Xxx"} <= set(names)
    assert entities(nlp("Ann went to Oslo today ."))[0][0] == "Ann"


def test_spans_of_a_key(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("loglinear_spans", config={"spans_key": "names"})

    def made():
        for text, ents in sentences():
            doc = nlp.make_doc(text)
            doc.spans["names"] = SpanGroup(doc, spans=[doc.char_span(*ent[:2], label=ent[2]) for ent in ents])
            yield Example(nlp.make_doc(text), doc)

    nlp.initialize(lambda: list(made()))
    doc = nlp("Eve Ross went to Oslo today .")
    assert [(s.text, s.label_) for s in doc.spans["names"]] == [("Eve Ross", "PER"), ("Oslo", "LOC")]
    assert len(doc.spans["names"].attrs["scores"]) == 2 and not doc.ents
    assert nlp.evaluate(list(made()))["spans_names_f"] == 1.0
    doc = nlp.make_doc("New York")
    doc.spans["names"] = [Span(doc, 0, 2, "A"), Span(doc, 1, 2, "B")]
    with pytest.raises(ValueError, match="spans overlap in 'New York'"):
        nlp.initialize(lambda: [Example(nlp.make_doc("New York"), doc)])


def test_the_training_command(tmp_path):
    """``spacy train`` initialises the component and leaves it alone."""
    from spacy.cli.init_config import init_config
    from spacy.cli.train import train
    from spacy.tokens import DocBin

    nlp = spacy.blank("en")
    DocBin(docs=[example.reference for example in ner_examples(nlp)]).to_disk(tmp_path / "all.spacy")
    config = init_config(lang="en", pipeline=["tagger"], optimize="efficiency")
    config["nlp"]["pipeline"] = ["loglinear_ner"]
    config["components"] = {"loglinear_ner": {"factory": "loglinear_ner", "options": {"l2": 0.1}}}
    config["paths"] = {
        "train": str(tmp_path / "all.spacy"),
        "dev": str(tmp_path / "all.spacy"),
        "vectors": None,
        "init_tok2vec": None,
    }
    config["training"]["max_steps"] = 2
    config["training"]["eval_frequency"] = 1
    config["training"]["score_weights"] = {"ents_f": 1.0}
    config["initialize"]["components"] = {"loglinear_ner": {"labels": ["LOC", "PER"]}}
    config.to_disk(tmp_path / "config.cfg")
    train(tmp_path / "config.cfg", tmp_path / "out")
    loaded = spacy.load(tmp_path / "out" / "model-best")
    assert entities(loaded("Ann went to Oslo today .")) == [("Ann", "PER"), ("Oslo", "LOC")]


@pytest.mark.parametrize(("factory", "config", "message"), [
    ("loglinear_ner", {"columns": []}, "columns is empty"),
    ("loglinear_ner", {"columns": ["colour"]}, "'colour' is not a text attribute of tokens"),
    ("loglinear_ner", {"columns": "text"}, "list"),
    ("loglinear_ner", {"scheme": "iobes"}, "not one of bio, bilou"),
    ("loglinear_ner", {"options": {"colour": 1}}, "colour"),
    ("loglinear_ner", {"options": {"l2": -1.0}}, "l2"),
    ("loglinear_ner", {"options": {"template": "pos"}}, "setting of its own"),
    ("loglinear_ner", {"colour": 1}, "colour"),
    ("loglinear_tagger", {"attribute": "dep"}, "not one of tag, pos"),
    ("loglinear_tagger", {"columns": ["text", "tag"]}, "what the component is to find"),
])  # fmt: skip
def test_settings_that_make_no_sense(factory, config, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe(factory, config=config)


def test_what_is_missing_is_said(ner, tmp_path):
    nlp = spacy.blank("en")
    component = nlp.add_pipe("loglinear_ner")
    with pytest.raises(ValueError, match=r"no model yet; train it by nlp\.initialize"):
        nlp("Ann")
    with pytest.raises(ValueError, match="no example has what this component learns"):
        nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("Ann"), {})])
    with pytest.raises(ValueError, match="the examples have the label"):
        component.initialize(lambda: ner_examples(nlp), nlp=nlp, labels=["PER"])
    with pytest.raises(ValueError, match="holds no such component"):
        component.from_disk(tmp_path / "none")
    with pytest.raises(ValueError, match="not the bytes"):
        component.from_bytes(b"xy")
    assert component.labels == () and component.to_bytes().endswith(b"}")
    nlp.to_disk(tmp_path / "untrained")
    assert spacy.load(tmp_path / "untrained").get_pipe("loglinear_ner").labels == ()
    ner.to_disk(tmp_path / "other")
    place = tmp_path / "other" / "loglinear_ner" / "settings.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "scheme": "bilou"}))
    with pytest.raises(ValueError, match="the stored model has scheme='bilou'"):
        spacy.load(tmp_path / "other")
    (tmp_path / "other" / "loglinear_ner" / "model").write_bytes(b"junk")
    place.write_text(json.dumps(component._settings()))
    with pytest.raises(ValueError, match="model"):
        spacy.load(tmp_path / "other")


def test_errors_of_documents_go_to_the_handler(ner, monkeypatch):
    nlp, seen = spacy.blank("en"), []
    component = nlp.add_pipe("loglinear_ner", source=ner)
    annotate = component._annotate

    def picky(docs):
        if any("bad" in doc.text for doc in docs):
            raise ValueError("bad")
        annotate(docs)

    monkeypatch.setattr(component, "_annotate", picky)
    nlp.set_error_handler(lambda name, proc, docs, error: seen.extend(doc.text for doc in docs))
    assert [doc.text for doc in nlp.pipe(["Ann", "bad", "Rome"])] == ["Ann", "Rome"] and seen == ["bad"]


def test_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_guide("spaCy")
    assert "Ann PER" in capsys.readouterr().out and (tmp_path / "pipeline").exists()
