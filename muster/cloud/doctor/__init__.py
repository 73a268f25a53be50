"""What stands between a stack file and its first `up`: looked at from outside, nothing changed."""
