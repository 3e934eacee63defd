"""A cohort: its table of participants, its classes and its splits."""
