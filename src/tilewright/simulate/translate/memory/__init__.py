"""Memory accesses, copies and barriers in memory."""
