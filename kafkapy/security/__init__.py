"""TLS and SASL: certificates, principals, mechanisms. Imported when a listener or a client connection needs it."""
