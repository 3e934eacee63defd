"""Strategies of one stage, one file each, and the search that they share."""
