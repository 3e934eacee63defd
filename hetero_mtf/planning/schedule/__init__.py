"""Clock tables of pipeline schedules, and their simulator."""
