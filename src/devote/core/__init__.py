"""What everybody speaks."""
