"""Deep epistemic value functions for optimistic exploration."""
