"""One way to train: ``plan`` says which phases there are and which options go together, ``run`` goes through them,
``checkpoint`` keeps what is learnt on the way, ``dev`` scores it.
"""
