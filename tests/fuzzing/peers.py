"""The short form of the campaign for the model readers of other tools, beside our own: crashes in 10,000 damaged files.

``python -m fuzzing.peers [N [TOOL ...]]``. The same kinds of damage are done to a small model of each tool: bytes
changed, numbers of four bytes replaced, parts lost, doubled or cut off. Each file is loaded and used on two sentences
in a process of its own with 2 GB of address space and ten seconds. A *crash* is a signal; an exception, or an exit with
a message, is an answer. Our files have a checksum, so they are also damaged and signed again, as an attacker would.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fuzzing.files import folder, scratch
from fuzzing.model_files import GOLDEN

SECONDS = 10
SENTENCES = [["w=The", "p=DT"], ["w=dog", "p=NN"], ["w=barks", "p=VB"], ["w=The", "p=DT"]], [["w=Anna", "p=NN"]]
LABELS = ["B", "I", "O", "B"], ["B"]
NUMBERS = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 255, 65536, 10**6)
SIGNED = b'"checksum":"'


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with one to four places damaged."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(content)) if content else 0
        match rng.randrange(7):
            case 0 | 1:
                content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
            case 2 | 3:
                place -= place % 4
                content = content[:place] + rng.choice(NUMBERS).to_bytes(4, "little") + content[place + 4 :]
            case 4:
                content = content[:place]
            case 5:
                content = content[:place] + content[place + rng.randint(1, 64) :]
            case _:
                content = content[:place] + content[place : place + rng.randint(1, 64)] * 2 + content[place:]
    return content


def signed_again(content: bytes) -> bytes:
    """Our file with a checksum that fits whatever is in it."""
    import hashlib

    place = content.find(SIGNED) + len(SIGNED)
    if place < len(SIGNED) or place + 64 > len(content):
        return content
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        return content
    digits = hashlib.sha256(content[:place] + b"0" * 64 + content[place + 64 :]).hexdigest().encode()
    return content[:place] + digits + content[place + 64 :]


# -- the tools -----------------------------------------------------------------------------------------------------


def crfsuite() -> tuple[bytes, Callable[[bytes], None]]:
    """A model of python-crfsuite's, and its use."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for X, y in zip(SENTENCES * 3, LABELS * 3, strict=True):
        trainer.append(X, y)
    trainer.set_params({"max_iterations": 5})
    path = folder() / "peer.crfsuite"
    trainer.train(str(path))

    def use(content: bytes) -> None:
        tagger = pycrfsuite.Tagger()
        tagger.open(str(scratch("peer.crfsuite", content)))
        for X in SENTENCES:
            labels = tagger.tag(X)
            tagger.probability(labels)
            tagger.marginal(labels[0], 0)

    return path.read_bytes(), use


def wapiti() -> tuple[bytes, Callable[[bytes], None]]:
    """A model of Wapiti's (a text file), and its use, through the package libwapiti."""
    from wapiti import Model

    rows = [
        "\n".join(f"{' '.join(token)} {label}" for token, label in zip(X, y, strict=True))
        for X, y in zip(SENTENCES, LABELS, strict=True)
    ]
    trained = Model(patterns="u:%x[0,0]\nu:%x[-1,1]\nb", nthread=1, maxiter=5)
    trained.train(rows)
    path = folder() / "peer.wapiti"
    trained.save(str(path))

    def use(content: bytes) -> None:
        model = Model(model=str(scratch("peer.wapiti", content)), nthread=1)
        for X in SENTENCES:
            model.label_sequence("\n".join(map(" ".join, X)))

    return path.read_bytes(), use


def crfpp() -> tuple[bytes, Callable[[bytes], None]]:
    """A model of CRF++'s from the folder of corpora, and its use, through the package pycrfpp, which cannot train."""
    from pycrfpp import Tagger

    path = Path(os.environ.get("LOGLINEAR_DATA", "../../shared/data")) / "foreign_models" / "crfpp.CRF-L2.model"
    if not path.exists():
        raise ImportError(f"{path} does not exist; set LOGLINEAR_DATA")

    def use(content: bytes) -> None:
        tagger = Tagger(f"-m {scratch('peer.crfpp', content)} -v 1 -n 2")
        for X in SENTENCES:
            for token in X:
                tagger.add(token[0])
            tagger.parse()
            tagger.prob()
            tagger.prob(0)
            tagger.clear()

    return path.read_bytes(), use


def ours() -> tuple[bytes, Callable[[bytes], None]]:
    """A model of ours, and its use."""
    import loglinear

    content = (GOLDEN / "tagger-chain.model").read_bytes()
    X = [[("The", "DT"), ("dog", "NN"), ("barks", "VBZ")], [("Anna", "NNP")]]

    def use(content: bytes) -> None:
        tagger = loglinear.load(content)
        tagger.threads = 1
        labels = tagger.predict(X)
        tagger.log_probability(X, labels)
        tagger.predict_marginals(X)

    use(content)
    return content, use


def ours_signed() -> tuple[bytes, Callable[[bytes], None]]:
    """The same, signed again."""
    content, use = ours()
    return content, lambda damaged: use(signed_again(damaged))


TOOLS = {
    "loglinear": ours,
    "loglinear, signed again": ours_signed,
    "python-crfsuite": crfsuite,
    "Wapiti": wapiti,
    "CRF++": crfpp,
}


# -- counting ------------------------------------------------------------------------------------------------------


def outcome(use: Callable[[bytes], None], content: bytes) -> str:
    """How the use of a file ends, in a process of its own."""
    child = os.fork()
    if not child:
        os.setsid()
        sink = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(sink, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9 + _address_space(),) * 2)
        status = 0
        try:
            use(content)
        except Exception as error:
            from loglinear import LoglinearError

            status = 3 if isinstance(error, LoglinearError) else 4
        os._exit(status)
    end = time.monotonic() + 6 * SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
        time.sleep(0.0002)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return "hang" if name in ("SIGXCPU", "SIGKILL") else f"crash {name}"
    return "used" if os.WEXITSTATUS(status) == 0 else "refused"


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main(n: int, names: list[str]) -> None:
    """Print, for each tool that is installed, what became of ``n`` files."""
    for tool, make in ((tool, make) for tool, make in TOOLS.items() if not names or tool in names):
        try:
            content, use = make()
        except ImportError as error:
            print(f"{tool}: skipped, {error}")
            continue
        assert outcome(use, content) == "used"  # undamaged
        counts = Counter[str]()
        for number in range(n):
            counts[outcome(use, damaged(content, random.Random(number)))] += 1
        crashes = sum(count for word, count in counts.items() if word.startswith("crash"))
        details = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
        print(f"{tool}: {crashes:,} crashes, {counts['hang']:,} hangs in {n:,} files ({details})", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, sys.argv[2:])
