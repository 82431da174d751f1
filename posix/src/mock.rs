//! A kernel and a channel made of plain memory, for this room's tests.
