"""Profiles: cost curves, their validity, and what-if profiles."""
