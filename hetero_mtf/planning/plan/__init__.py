"""The plan: its record, checks, text and JSON, and its constructors from given shares."""
