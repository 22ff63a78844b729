"""HTTP interface of the service: Open Inference Protocol v2, with an extension for learning."""
