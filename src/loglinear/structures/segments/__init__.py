"""Semi-Markov models: labels on whole segments of tokens (Sarawagi & Cohen 2004)."""
