"""The stand-alone program that checks a certificate; format=verifier ships it with a model."""
