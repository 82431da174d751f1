mod futures;
mod harness;
mod random;
mod tcp;
mod timers;
mod udp;
mod zero_copy;
