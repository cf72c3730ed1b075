"""The brokers that are compared, one or several, and the machine that they run on."""
