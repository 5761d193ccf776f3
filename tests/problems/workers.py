"""Workers in this process whose outcomes are known: nothing is trained."""

from loglinear.experiments.reproduce.tasks import DEPENDENCIES, TREES

FIGURES = dict.fromkeys(("precision", "recall", "f1", "accuracy", "uas", "las", "exact"), 50.0)


class Sure:
    """Gives the same cell for each job; it is interrupted at the name ``stop``."""

    n = 1

    def __init__(self):
        self.done = []

    def run(self, jobs):
        for name, job in jobs.items():
            if name == "stop":
                raise KeyboardInterrupt
            self.done.append(name)
            yield name, {"job": job.identity, **outcome(job)}


def outcome(job):
    cell = {"test": FIGURES, "counts": [[2, 2, 1], [3, 3, 3]], "seconds": 1.0, "message": "", "sentences": 5}
    if job.kind == DEPENDENCIES:
        return cell
    if job.kind == TREES:
        return {**cell, "wrong_edges": ""}
    also = {"also": {how: {**cell, "dev": FIGURES} for how in job.also}} if job.also else {}
    return {**cell, "dev": FIGURES, "iterations": 3, "features": 7, **also}
