"""Time lines: what each device does when in a step, as text and as a picture."""
