"""Tasks on the host in native MuJoCo, many worlds at once in threads."""
