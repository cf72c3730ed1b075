"""Topics of one cluster are copied to another: ``engine.Mirror``; ``docs/mirror.md`` says what is guaranteed."""
