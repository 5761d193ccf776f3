"""A model is loaded once a process, again when its file has changed, and never if it is another than was meant."""

import hashlib
import os
import pickle
import shutil
import threading

import pytest

from loglinear.errors import ModelFileError
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.scale import models


@pytest.fixture
def loads(monkeypatch):
    found, load = [], LoadedTagger.load

    def counted(path, *arguments):
        found.append(path)
        return load(path, *arguments)

    monkeypatch.setattr(LoadedTagger, "load", counted)
    monkeypatch.setattr(models, "_kept", models.OrderedDict())
    return found


def test_a_model_is_loaded_once_by_all_threads(model_path, loads):
    threads = [threading.Thread(target=models.loaded, args=(model_path,)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(loads) == 1
    assert models.loaded(model_path, threads=1).model_ is models.loaded(os.path.relpath(model_path), threads=3).model_


def test_a_file_that_changes_is_loaded_again(model_path, tmp_path, loads):
    path = tmp_path / "m.model"
    shutil.copy(model_path, path)
    models.loaded(path)
    os.utime(path, ns=(1, 1))
    models.loaded(path)
    assert len(loads) == 2


def test_few_models_are_kept(model_path, tmp_path, loads):
    paths = [shutil.copy(model_path, tmp_path / f"{i}.model") for i in range(models.MOST + 1)]
    for path in [*paths, paths[-1], paths[0]]:
        models.loaded(path)
    assert len(loads) == models.MOST + 2


def test_another_content_than_was_meant_is_refused(model_path, tmp_path, loads):
    path = tmp_path / "m.model"
    shutil.copy(model_path, path)
    digest = models.digest_of(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    models.loaded(path, digest)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelFileError, match=r"m.model has another content .* than when it was named"):
        models.loaded(path, digest)
    with pytest.raises(ModelFileError, match="No such file"):
        models.loaded(tmp_path / "none.model", digest)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_can_load_while_the_other_does(model_path):
    with models._lock:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                answer = pickle.dumps(models.loaded(model_path, threads=1).classes_)
            except BaseException as error:
                answer = pickle.dumps(repr(error))
            os.write(writing, answer)
            os._exit(0)
        os.waitpid(child, 0)
    assert "B-NP" in pickle.loads(os.read(reading, 1 << 16))
