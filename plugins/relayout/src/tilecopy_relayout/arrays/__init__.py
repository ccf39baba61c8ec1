"""Arrays of all frameworks: functions that read address, shape, strides and device, and functions that create results."""
