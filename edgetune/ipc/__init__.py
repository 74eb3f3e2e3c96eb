"""Communication between processes and threads of one run: child processes, frames, queues."""
