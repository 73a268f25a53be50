"""A cloud account outside Pulumi: API clients with limits, and the backend for state and secrets."""
