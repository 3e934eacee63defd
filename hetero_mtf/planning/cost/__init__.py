"""Predicted seconds of layers, links, collectives and whole steps."""
