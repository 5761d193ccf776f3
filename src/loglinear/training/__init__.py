"""One way to train, for every estimator that iterates.

    text, tables, trees          an estimator's inputs
      -> problem                 the same in numbers, and what to learn from them          (``problem``)
      -> stages and phases       starting weights and optimizers                           (``plan``)
      -> run                     with progress, dev data, checkpoints and signals          (``run``)
      -> model and outcome       what was learnt, and how it went

An estimator makes a :class:`~loglinear.training.problem.Problem` of its inputs and hands it to
:func:`loglinear.training.run.train`. A *stage* finds one vector of weights: most problems have one, one-versus-all has
one for each label, and a dependency parser has a second one for relations. A *phase* is one run of an optimizer; most
stages have one, and those of some criteria begin with another criterion, or learn in rounds.

    problem      the protocol an estimator's training data follows
    plan         which options go together; penalty, default optimizer and the phases that follow from the options
    run          :func:`train`: phases one after the other, signals, progress, patience, history
    checkpoint   a model file of the weights so far, with everything needed to continue as if never stopped
    dev          dev data, for early stopping

This room knows weights, objectives, optimizers and time. It knows no estimator and no file format.
"""
