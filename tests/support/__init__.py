"""What tests share: databases, services, builders of data, and references that answers are compared with."""
