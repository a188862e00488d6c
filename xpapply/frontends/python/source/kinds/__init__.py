"""Values that are more than one of the machine's numbers, or less."""
