"""Finds every Celery task run that was killed, and reconciles it with the app's run log."""

__version__ = "0.1.0"
