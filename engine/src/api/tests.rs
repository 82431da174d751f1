mod harness;
mod tcp;
mod timers;
mod zero_copy;
