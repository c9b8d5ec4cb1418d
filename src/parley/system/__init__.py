"""Access to the machine: files on disk, threads, and processes that may be killed."""
