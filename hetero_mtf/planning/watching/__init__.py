"""Steps are watched and traced: whether a device has become slower or faster since training began."""
