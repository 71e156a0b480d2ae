"""The only place that imports urllib3: requests go out, answers come back, each within its limits."""
