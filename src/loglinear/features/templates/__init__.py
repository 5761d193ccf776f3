"""Attributes by templates: ``language`` defines templates, ``sets`` has the named sets, ``encoder`` turns columns into
attributes, ``index`` looks them up fast in new text, ``hashed`` needs no names, and ``gazetteer`` looks words up in
lists.
"""
