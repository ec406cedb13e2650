"""Reports: what a sweep found, as pandas frames, tables and files.

Modules of this package import pandas; nothing that runs inside a task of a trial may import them.
"""
