"""The unchanged test suites of both packages, and programs that use them, on the look-alikes.

The packages' sources and the programs are fetched; without a network the tests are skipped, saying so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PLUGIN = "import loglinear.compat\nloglinear.compat.install()\n"
SHOWN = """
import json, sys
print("\\n" + json.dumps([answer, "loglinear" in sys.modules], default=list))
"""

#: What to install for each client, and an expression that uses it; all that it looks at is in its own wheel.
CLIENTS = {
    "usaddress": (
        ["usaddress", "probableparsing"],
        """
import usaddress
streets = ["Main St. Suite 100 Chicago, IL 60614", "PO Box 5 Springfield", "Infinite Loop, Cupertino", "5th and Oak"]
answer = [usaddress.parse(f"{number} {street}") for number in (1, 22, "221B") for street in streets]
""",
    ),
    "probablepeople": (
        ["probablepeople", "probableparsing", "doublemetaphone"],
        """
import probablepeople
names = ["Mr George 'Gob' Bluth II", "Dr. Jane Q. Public, MD", "Sitwell Housing Inc", "Smith & Sons Ltd."]
answer = [probablepeople.parse(name, kind) for name in names for kind in (None, "person", "company")]
""",
    ),
    "pyvi": (
        ["pyvi"],
        """
from pyvi import ViPosTagger, ViTokenizer, ViUtils
texts = ["Trường đại học bách khoa hà nội", "Xin chào các bạn, hôm nay trời đẹp quá", "Hà Nội là thủ đô của Việt Nam"]
answer = [ViTokenizer.tokenize(text) for text in texts]
answer += [ViPosTagger.postagging(text) for text in answer[:3]]
answer += [ViUtils.add_accents("truong dai hoc bach khoa ha noi")]
""",
    ),
    "pythainlp": (
        ["pythainlp"],
        """
from pythainlp.tag import chunk_parse
from pythainlp.tokenize import sent_tokenize
from pythainlp.tokenize.han_solo import segment
text = "ฉันไปประชุมเมื่อวันที่ 11 มีนาคม แล้วฉันก็กลับบ้าน เขาไม่ไปโรงเรียนเพราะป่วย"
answer = [sent_tokenize(text, engine="crfcut"), segment(text)]
answer += [chunk_parse([("ผม", "PPRS"), ("รัก", "VACT"), ("คุณ", "PPRS")])]
""",
    ),
    "khmercut": (["khmercut"], 'import khmercut\nanswer = khmercut.tokenize("ប្រទេសកម្ពុជាមានទីក្រុងភ្នំពេញជារាជធានី")\n'),
    "khmer-nltk": (
        ["khmer-nltk"],
        'from khmernltk import pos_tag, word_tokenize\ntext = "ប្រទេសកម្ពុជាមានទីក្រុងភ្នំពេញជារាជធានី"\n'
        "answer = [word_tokenize(text), pos_tag(text)]\n",
    ),
    "ssg": (["ssg"], 'import ssg\nanswer = ssg.syllable_tokenize("ประเทศไทยมีกรุงเทพมหานครเป็นเมืองหลวง")\n'),
}


def run(*command, **keywords):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **keywords)


def pip(python, *arguments):
    """Run pip; skip if it cannot fetch what it should."""
    done = run(python, "-m", "pip", "-q", "--disable-pip-version-check", *arguments)
    if done.returncode:
        last = next(iter(done.stderr.strip().splitlines()[::-1]), "")
        pytest.skip(f"what is tested here has to be fetched, and could not be: {last:.200}")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The folder with the unpacked sources of both packages."""
    folder = tmp_path_factory.mktemp("sources")
    run(sys.executable, "-m", "venv", folder / "tools", check=True)
    python = folder / "tools" / "bin" / "python"
    pip(python, "install", "Cython", "setuptools", "wheel")  # python-crfsuite's source says what it is only with these
    what = ("python-crfsuite", "sklearn-crfsuite")
    pip(python, "download", "--no-deps", "--no-build-isolation", "--no-binary", ",".join(what), *what, "-d", folder)
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(("name", "least"), [("python_crfsuite", 51), ("sklearn_crfsuite", 45)])
def test_the_packages_own_tests_pass_even_those_marked_as_failing_or_crashing(sources, tmp_path, name, least):
    (tmp_path / "lookalikes.py").write_text(PLUGIN)
    (place,) = [each for each in sources.glob(f"{name}-*") if each.is_dir()]
    done = run(
        sys.executable, "-m", "pytest", "-p", "lookalikes", "--runxfail", "--doctest-modules", "-p", "no:cacheprovider",
        "-q", "tests", cwd=place, env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.match(r"(\d+) passed", last)[1]) >= least and "skipped" not in last and "xfailed" not in last


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A folder with the real packages, for whatever uses them."""
    folder = tmp_path_factory.mktemp("real")
    pip(sys.executable, "install", "--no-deps", "--target", folder, "sklearn-crfsuite", "tabulate", "tqdm")
    return folder


@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_answers_as_with_the_real_packages(real, tmp_path, client):
    what, code = CLIENTS[client]
    pip(sys.executable, "install", "--no-deps", "--target", tmp_path / "client", *what)
    path = os.pathsep.join(map(str, [tmp_path / "client", real]))
    answers = []
    for start in ("", PLUGIN):
        (tmp_path / "program.py").write_text(f"{start}{code}{SHOWN}", encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "HOME": str(tmp_path)}
        done = run(sys.executable, tmp_path / "program.py", env=environment)
        if not start and done.returncode:
            pytest.skip(
                f"{client} does not run here with the real packages: {done.stderr.strip().splitlines()[-1]:.200}"
            )
        assert done.returncode == 0, done.stderr[-2000:]
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    assert answers[0][0] == answers[1][0] and answers[0][0]
    assert [used for _, used in answers] == [False, True]


def test_the_first_parse_of_an_address_takes_little_time(real, tmp_path):
    """In a new process, imports included: of the processor, as others may be working."""
    what, _ = CLIENTS["usaddress"]
    pip(sys.executable, "install", "--no-deps", "--target", tmp_path / "client", *what)
    code = f"""
import sys, time
start = time.process_time()
{PLUGIN}
import usaddress
assert usaddress.parse("123 Main St. Chicago, IL")[0] == ("123", "AddressNumber")
print(time.process_time() - start, *{{"sklearn", "scipy", "numba"}} & set(sys.modules))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "client")}
    told = [run(sys.executable, "-c", code, env=environment, check=True).stdout.split() for _ in range(5)]
    if any("numba" in modules for _, *modules in told):
        pytest.skip("there are no compiled kernels that fit the code; make kernels")
    assert min(float(seconds) for seconds, *_ in told) <= 0.6
    assert not any(modules for _, *modules in told) and Path(real).exists()
