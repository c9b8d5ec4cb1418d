"""The machine below: files on disk, threads, and processes that may be killed."""
