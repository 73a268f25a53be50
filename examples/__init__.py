"""What a user of Muster submits, and programs that follow it live."""
