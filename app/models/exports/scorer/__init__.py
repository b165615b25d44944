"""The program in an MLflow folder, shipped as it is. It shares no code with the service."""
