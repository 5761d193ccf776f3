"""Models behind the interfaces of other packages, each of which is imported only here: ``spacy``, ``nltk``."""
