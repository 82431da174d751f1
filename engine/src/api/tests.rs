mod futures;
mod harness;
mod nets;
mod random;
mod tcp;
mod timers;
mod udp;
mod zero_copy;
