"""Plain data -> bytes of known length; opens files, never sockets."""
