"""Work on a cluster: jobs that are pure functions, done by threads of this process or by Dask's workers.

    engine        what a cluster can do: map, stream, share; :class:`Local`, on threads; :func:`open_cluster`
    dask_engine   the same on dask.distributed, which is imported there alone

Needs ``pip install 'loglinear[dask]'`` for anything but :class:`Local`.
"""
