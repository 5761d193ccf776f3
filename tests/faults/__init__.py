"""Campaigns of faults: commands that are killed, run out of disk or memory, and models under load (`make faults`)."""
