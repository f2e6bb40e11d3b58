"""The routers; each depends on a Bearer key unless it says why not."""
