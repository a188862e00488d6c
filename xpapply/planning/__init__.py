"""The planner: plans, what makes them, and the choice among engines."""
