"""Three sentences with words, tags and chunks."""

TRAIN = """\
the D B-NP
dog N I-NP
barks V B-VP

Anna N B-NP
sees V B-VP
the D B-NP
dog N I-NP
. P O

a D B-NP
cat N I-NP
sleeps V B-VP
. P O

"""
