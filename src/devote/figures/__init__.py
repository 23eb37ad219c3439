"""Pictures; matplotlib lives here and nowhere else."""
