"""Every attack of a tenant, by what it is after."""
