"""One module per wire protocol: request body, answer, stream."""
