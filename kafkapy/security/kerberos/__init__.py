"""SASL/GSSAPI: tickets of a Kerberos realm in place of passwords. Imported when a listener or a client uses it."""
