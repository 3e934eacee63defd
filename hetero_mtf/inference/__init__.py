"""Inference on whole volumes: sliding windows that are shared out over unequal devices."""
