"""SASL/OAUTHBEARER: tokens of an issuer in place of passwords. Imported when a listener or a client uses it."""
