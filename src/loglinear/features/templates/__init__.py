"""Attributes by templates: ``language`` is what a template may say, ``sets`` has the named ones, ``encoder`` makes
attributes of columns, ``index`` finds them quickly in new text, ``hashed`` does without names, ``gazetteer`` looks
words up in lists.
"""
