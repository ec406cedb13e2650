"""Carry a recorded configuration to the hosts of a fleet, and keep a record of it.

A row of a sweep is a claim about one machine on one night. It is chosen here with its reasons, compared with
the hosts that it is meant for, checked again on a canary, and only then carried on in waves.
"""
