"""Cutting-plane methods: cpa, bmrm, oca_e and oca_t for classification, and cpa_ordinal for ranking."""
