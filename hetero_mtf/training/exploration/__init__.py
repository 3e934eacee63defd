"""Training that tries plans as it goes: every measured step is a training step."""
