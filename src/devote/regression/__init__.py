"""Epistemic regression: priors and correctors on plain tables, and how well they know."""
