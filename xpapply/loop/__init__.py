"""The plain loop, which defines every result: over one array, over several, and in processes."""
