"""Around calls: budgets, threads, error states, warnings, progress, modules found by name."""
