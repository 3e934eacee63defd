"""Runs other people's scripts for Keras, under Keras alone and distributed by two more lines, and compares what they report."""
