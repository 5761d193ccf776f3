"""Stochastic gradient descent and AdaGrad: ``general`` goes over any structure, ``chain`` is a compiled pass over chains."""
