"""Hyperplane's tests: unit, property, contract, e2e and fault, with what they share beside this file."""
