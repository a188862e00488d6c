"""What is read of a function's source: nothing is known of types here."""
