"""The road on real data, where a reference exists: CoNLL-2000 chunking beside python-crfsuite."""

import numpy as np
import pycrfsuite
import pytest

from loglinear import Tagger, chunk_scores, read_columns
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.sets import named_set
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.gold import Gold


@pytest.fixture(scope="module")
def train(corpora):
    return read_columns(corpora / "conll2000" / "train.txt")


def test_the_counts_are_those_known_for_this_data(train):
    assert (train.n_sentences, train.n_tokens) == (8936, 211727)
    encoder = TemplateEncoder(named_set("chunking"))
    encoded = encoder.fit(train)
    labels = train.columns[-1]
    features = ChainFeatures.collect(encoded, encoder.n_attributes, Gold(labels.ids), len(labels.values))
    assert len(labels.values) == 22
    assert encoder.n_attributes == 338_551
    assert features.state.n_features == 456_323


def test_the_optimum_and_the_score_are_crfsuites(corpora, train, tmp_path):
    part = train.select(np.arange(400))
    test = read_columns(corpora / "conll2000" / "test.txt").select(np.arange(300))
    encoder = TemplateEncoder(named_set("chunking"))
    encoded = encoder.fit(part)
    names = encoder.names()

    def strings(corpus, encoded):
        tokens = [
            [names[a] for a in encoded.state.ids[encoded.state.pointer[t] : encoded.state.pointer[t + 1]]]
            for t in range(corpus.n_tokens)
        ]
        return [tokens[corpus.offsets[i] : corpus.offsets[i + 1]] for i in range(len(corpus))]

    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c2": 1.0})
    for sequence, labels in zip(strings(part, encoded), part.labels(), strict=True):
        trainer.append(sequence, labels)
    trainer.train(str(tmp_path / "peer"))
    peer = pycrfsuite.Tagger()
    peer.open(str(tmp_path / "peer"))
    tagger = Tagger(template="chunking", l2=1.0, tolerance=1e-7).fit(part)
    assert tagger.objective_ == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-4)
    predicted = [peer.tag(sequence) for sequence in strings(test, encoder.transform(test))]
    theirs = chunk_scores(test.labels(), predicted).f1
    ours = chunk_scores(test.labels(), tagger.predict(test)).f1
    assert ours == pytest.approx(theirs, abs=0.1)
