"""The exact program over layouts and sizes of all layers."""
