"""The one HTTP client: three protocols, streams, usage, failures, the only retry loop."""
