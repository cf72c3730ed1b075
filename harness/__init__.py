"""Modules that bench, compat_tests, tools and tests share: brokers as child processes, Java, definitions, measuring."""
