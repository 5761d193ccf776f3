"""Room 6, counting: generative models."""
