"""Layers that contract channels or positions: dense layers and attention."""
