"""Stochastic gradient descent and AdaGrad: ``general`` goes over any structure, ``chain`` is compiled, over chains."""
