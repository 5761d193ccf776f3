"""SIGTERM at any moment of any verb: it ends within two seconds, and its files are old or new ones."""

import random
import shutil
import signal
import time

import pytest

from faults.counts import count
from faults.test_kills import Killed, no_process_of
from faults.verbs import OTHERS, VERBS, WITH_WORKERS, cells_within, same_cells, sweep
from loglinear.system import remove_abandoned

pytestmark = pytest.mark.slow


def swept(temporary):
    """What is left in the folder of temporary folders when abandoned ones have been removed."""
    for path in temporary.iterdir():
        remove_abandoned(path)
    return sorted(path.name for path in temporary.iterdir())


def test_every_verb_ends_soon_after_sigterm(server, fresh):
    if not count("signals"):
        pytest.skip("at random moments, as kills are: in the long form alone")
    rng, names = random.Random(count("seed")), list(VERBS)
    wanted, longest, sent = count("signals"), [], 0
    under_way = {}
    while sent < wanted:
        name = names[sent % len(names)]
        if name not in under_way:
            under_way[name] = Killed(name, VERBS[name], server, fresh())
        command = under_way[name]
        command.clear()
        server.start(*command.verb.line(), cwd=command.folder)
        time.sleep(rng.uniform(0.0, 0.8 * command.lasts))
        if (seconds := ended_by_sigterm(server, name)) is None:
            continue
        sent += 1
        longest.append((seconds, name))
        for output, same in command.verb.outputs.items():
            path, whole = command.folder / output, command.whole / output
            assert not path.exists() or (cells_within if same is same_cells else same)(path, whole), name
        # A signal between two lines may leave what was made in the first; the next command removes it.
        assert not sweep(command.folder) and not swept(server.temporary), name
        if (command.folder / "out.model.checkpoint").exists() and rng.random() < 0.3:
            command.finish()
    assert no_process_of(server)
    assert_soon(longest)


def test_verbs_with_workers_and_those_without_files_end_soon_after_sigterm(server, fresh):
    if not count("signals"):
        pytest.skip("at random moments, as kills are: in the long form alone")
    rng, longest = random.Random(count("seed")), []
    for name, verb in (WITH_WORKERS | OTHERS).items():
        for _ in range(max(count("signals") // 50, 1)):
            folder = fresh()
            server.start(*verb.line(), cwd=folder)
            time.sleep(rng.uniform(0.0, 6.0 if name in WITH_WORKERS or "all" in name else 0.5))
            if (seconds := ended_by_sigterm(server, name)) is not None:
                longest.append((seconds, name))
            assert no_process_of(server), name
            assert not sweep(folder) and not swept(server.temporary), name
            shutil.rmtree(folder)
    assert_soon(longest)


def ended_by_sigterm(server, name):
    """Send SIGTERM: the seconds until the command has ended; None if it had before."""
    if server.has_ended(0.0):
        server.end()
        return None
    began = time.perf_counter()
    server.kill(signal.SIGTERM)
    assert server.has_ended(30.0), name
    seconds = time.perf_counter() - began
    ended = server.end()
    assert ended.status in (0, 143, -signal.SIGTERM), (name, ended)
    assert "Traceback" not in ended.said, (name, ended)
    return seconds


def assert_soon(longest):
    longest.sort(reverse=True)
    print(f"\n{len(longest)} signals, the longest {[(round(each, 2), name) for each, name in longest[:5]]}")
    assert longest[0][0] < (2.0 if count("signals") >= 200 else 10.0)  # other tests may hold the processor
