mod futures;
mod harness;
mod tcp;
mod timers;
mod udp;
mod zero_copy;
