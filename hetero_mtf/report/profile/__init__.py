"""What a profile holds: the speeds of its devices and links as records, and how they are shown."""
