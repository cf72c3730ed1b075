"""Development tools: never imported by the package."""
