"""Cutting planes: cpa, bmrm, oca_e, oca_t, and cpa_ordinal for ranks."""
