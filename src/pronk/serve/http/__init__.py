"""The service over HTTP: Open Inference Protocol v2, with an extension for learning."""
