"""Ordinary differential equations, as ``scipy.integrate.solve_ivp`` solves them."""
