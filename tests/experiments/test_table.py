"""Tables in Markdown."""

from loglinear.experiments.tables import Table, table_text


def test_a_bar_within_a_cell_does_not_part_it():
    table = Table("F1", ["label", "gold"])
    table.add("A|B", [871], ["871"])
    assert table_text(table).splitlines()[-1] == r"| A\|B | 871 |"
