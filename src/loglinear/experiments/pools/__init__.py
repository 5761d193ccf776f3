"""Where the trainings of an experiment run: one protocol, three implementations.

pool         :class:`Pool`, what is asked of all of them, and :class:`Job`, what they do
shared       data that many jobs need, and that a process gets once
threads      on threads of this process
processes    in separate processes of this machine
cluster      on the workers of a Dask cluster
"""
