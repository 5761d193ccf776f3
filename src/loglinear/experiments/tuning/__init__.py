"""Tuning: ``grid`` is which settings there are, ``data`` what they are judged on, ``run`` trains and judges them."""
