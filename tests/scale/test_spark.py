"""``tag_udf`` in a local Spark, where there are pyspark and Java; what its workers do, anywhere."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")

from loglinear.errors import OptionError  # noqa: E402
from loglinear.scale import models  # noqa: E402
from loglinear.scale.spark import tag_udf, tagged_batches  # noqa: E402

HAS_SPARK = importlib.util.find_spec("pyspark") is not None


def batches(sentences):
    for part in (sentences[:1], [], sentences[1:]):
        yield tuple(pd.Series([[row[c] for row in s] for s in part], dtype=object) for c in range(2))


def test_workers_label_batch_by_batch(model_path, sentences, expected):
    told = (os.fspath(model_path), models.digest_of(model_path))
    found = list(tagged_batches(batches(sentences), *told, False, "viterbi", 1))
    assert [labels for series in found for labels in series] == expected and len(found) == 3
    frames = list(tagged_batches(batches(sentences), *told, True, "viterbi", 1))
    assert [labels for frame in frames for labels in frame["predicted"]] == expected
    assert all(list(frame.columns) == ["predicted", "confidence"] for frame in frames)


@pytest.mark.skipif(HAS_SPARK, reason="pyspark is installed")
def test_without_spark_the_error_has_the_line_to_type(model_path):
    with pytest.raises(OptionError, match="pip install pyspark"):
        tag_udf(model_path)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_SPARK, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_columns_of_spark_get_labels(model_path, sentences, expected):
    code = f"""
    from pyspark.sql import SparkSession
    from loglinear.scale.spark import tag_udf
    settings = {{"spark.ui.enabled": "false", "spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1"}}
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    rows = [(i, [w for w, _ in s], [t for _, t in s]) for i, s in enumerate({sentences!r})]
    frame = session.createDataFrame(rows, "id int, tokens array<string>, pos array<string>")
    for confidence in (False, True):
        tag = tag_udf({os.fspath(model_path)!r}, confidence=confidence)
        found = [row.p for row in frame.withColumn("p", tag("tokens", "pos")).orderBy("id").collect()]
        assert [p.predicted if confidence else p for p in found] == {expected!r}, found
    print("as expected")
    """
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "as expected" in done.stdout, done.stderr[-3000:]
