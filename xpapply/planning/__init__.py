"""How a call runs: plans, what makes them, and the engines that they choose between."""
