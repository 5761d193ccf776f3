"""Small problems for tests: strategies that draw them, corpora, distributions and objectives."""
