"""Layers that compute on windows: convolutions and pools."""
