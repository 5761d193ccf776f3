"""An encoder of the attributes of two: those of a trained model, and those of new data.

Attributes of both have one number; none is lost. Both encoders make attributes alike: by the same templates and
gazetteers, joined with labels or label pairs alike, hashed into as many buckets or not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loglinear.errors import OptionError
from loglinear.features.encoding import Vocabulary
from loglinear.features.names import NameEncoder
from loglinear.features.templates.encoder import Group, TemplateEncoder
from loglinear.features.templates.hashed import Buckets, HashedNameEncoder, HashedTemplateEncoder


def joined(known: Any, new: Any) -> Any:
    """An encoder of all attributes of ``known`` and, after those of their template, of ``new``; both are locked."""
    check_alike(known, new)
    if isinstance(known, HashedNameEncoder | HashedTemplateEncoder):
        buckets = Buckets(known.buckets.bits, known.buckets.used | new.buckets.used)
        if isinstance(known, HashedNameEncoder):
            return HashedNameEncoder(known.pair_features, buckets, known.edge)
        return HashedTemplateEncoder(known.templates, known.gazetteers, known.pair_features, buckets)
    if isinstance(known, NameEncoder):
        names = NameEncoder(known.pair_features, known.edge)
        names.vocabulary = joined_vocabulary(known.vocabulary, new.vocabulary)
        return names
    encoder = TemplateEncoder(known.templates, known.gazetteers, known.pair_features)
    encoder.values = joined_vocabulary(known.values, new.values)
    number = encoder.values.ids(new.values.strings)
    encoder.groups = []
    for group, others in zip(known.groups, new.groups, strict=True):
        keys = number[others.used]
        encoder.groups.append(Group.from_keys(np.concatenate([group.used, keys[group.rows_of(keys) < 0]])))
    return encoder


def joined_vocabulary(known: Vocabulary, new: Vocabulary) -> Vocabulary:
    """The strings of ``known`` under their numbers, and then those that only ``new`` has."""
    return Vocabulary([*known.strings, *(string for string in new.strings if string not in known)], locked=True)


def check_alike(known: Any, new: Any) -> None:
    """Refuse encoders that do not make attributes alike: the features of one mean nothing to the other."""
    if type(known) is not type(new):
        what = {"names": "ready-made features", "hashed-names": "hashed ready-made features"}
        what |= {"template": "columns, by a template", "hashed-template": "columns, by a template, hashed"}
        raise OptionError(f"the model so far was trained on {what[known.kind]}, this is {what[new.kind]}")
    if known.pair_features != new.pair_features:
        raise OptionError(
            f"pair_features={new.pair_features!r}: the model so far has pair_features={known.pair_features!r}"
        )
    if isinstance(known, NameEncoder) and known.edge != new.edge:
        raise OptionError(f"edge={list(new.edge)}: the model so far has edge={list(known.edge)}")
    if isinstance(known, TemplateEncoder):
        if str(known.templates) != str(new.templates):
            raise OptionError("template: the model so far was trained with another template; its features differ")
        mine, others = ({n: g.to_dict() for n, g in each.gazetteers.items()} for each in (known, new))
        if mine != others:
            raise OptionError("gazetteers: the model so far was trained with others, so that its features differ")
    if hasattr(known, "buckets") and known.buckets.bits != new.buckets.bits:
        raise OptionError(f"hash_bits={new.buckets.bits}: the model so far has hash_bits={known.buckets.bits}")
