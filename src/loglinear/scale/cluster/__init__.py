"""Work on a cluster: jobs that are pure functions, done by threads of this process or by Dask's workers.

    engine        what a cluster can do: map, stream, share; :class:`Local`, on threads; :func:`open_cluster`
    dask_engine   the same on dask.distributed, which is imported there alone; preload: how our workers begin
    sent          files that go along with jobs
    tagging       labels of files and tables
    source        pieces of a corpus that any process can read
    corpus, rows  sentences, and rows of numbers, as the process that trains sees them
    groups        jobs over all groups of their shards; :class:`Report`
    worker        what workers do in training
    objective     the sum of all shards as a function of the weights
    tagger        :class:`DaskTagger`
    classifier    :class:`DaskClassifier`

Needs ``pip install 'loglinear[dask]'`` for anything but :class:`Local`.
"""
