"""What sweeps left, as tidy pandas frames: trials, measurements, cells, events and requests.

One row a trial, a measurement, a cell or an event; failed ones included. pandera schemas guard the border to
the files and nothing behind it. Modules of this package import pandas, DuckDB and pandera; nothing that runs
inside a task of a trial may import them.
"""
