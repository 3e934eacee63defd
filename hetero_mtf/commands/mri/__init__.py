"""Commands on MRI volumes."""
