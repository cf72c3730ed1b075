"""Export, import, rebuild and checks of the metadata of a stopped broker."""
