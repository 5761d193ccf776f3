"""SIGTERM at any moment of any verb: it ends within two seconds, and its files are old or new ones."""

import random
import signal
import time

import pytest

from faults.counts import count
from faults.test_kills import Killed, no_process_of
from faults.verbs import VERBS, cells_within, same_cells, sweep
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
    if wanted < 200:
        names = rng.sample(names, 6)
    under_way = {name: Killed(name, VERBS[name], server, fresh()) for name in names}
    while sent < wanted:
        command = under_way[names[sent % len(names)]]
        command.clear()
        server.start(*command.verb.line(), cwd=command.folder)
        time.sleep(rng.uniform(0.03, command.lasts))
        late = server.has_ended(0.0)
        began = time.perf_counter()
        server.kill(signal.SIGTERM)
        assert server.has_ended(20.0), command.name
        seconds = time.perf_counter() - began
        ended = server.end()
        if late:
            continue
        sent += 1
        longest.append((seconds, command.name))
        assert ended.status in (0, 143, -signal.SIGTERM), (command.name, ended)
        assert "Traceback" not in ended.said, (command.name, ended)
        for name, same in command.verb.outputs.items():
            path, whole = command.folder / name, command.whole / name
            assert not path.exists() or (cells_within if same is same_cells else same)(path, whole), command.name
        # A signal between two lines may leave what was made in the first; the next command removes it.
        assert not sweep(command.folder) and not swept(server.temporary), (command.name, ended)
        if (command.folder / "out.model.checkpoint").exists() and rng.random() < 0.3:
            command.finish()
    assert no_process_of(server)
    longest.sort(reverse=True)
    print(f"\n{sent} signals, the longest {[(round(each, 2), name) for each, name in longest[:5]]}")
    assert longest[0][0] < (2.0 if wanted >= 200 else 10.0)  # other tests may hold the processor
