"""A cloud account, before and beside Pulumi: clients with limits, and where state and secrets live."""
