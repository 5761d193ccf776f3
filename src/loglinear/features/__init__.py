"""Room 2, numbers: templates, vocabularies and the integer encoding."""
