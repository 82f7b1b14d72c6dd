"""The parts of the private engine. `eventstore.embedded` is the way in."""
