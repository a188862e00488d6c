"""Around calls: threads, error states, warnings, progress, modules found by name."""
